#!/usr/bin/python3
"""Trains the GPT in PyTorch for a few steps and prints one JSON object: the seconds of each step
and its loss, and how many threads it computed with: the processor time of the process over that of
its main thread, which other programs on the cores do not change. What bench/peers/compare runs, a
fresh process each time.

How many threads there are is the caller's to say, in the environment: OpenBLAS reads it when torch
is imported and does not ask torch.set_num_threads afterwards.

With --processes N this is one of N processes under DistributedDataParallel over gloo, and --batch
is what this process takes of the batch. They meet in the file --meet.
"""

import argparse
import contextlib
import json
import time

import numpy as np
import torch

from torch_models import GPT, adamw

parser = argparse.ArgumentParser()
for name in "layers", "heads", "width", "context", "batch", "vocabulary", "steps":
    parser.add_argument(f"--{name}", type=int, required=True)
parser.add_argument("--tokens", required=True, help="a file of one byte a token")
parser.add_argument("--precision", choices=["f32", "bf16"], default="f32")
parser.add_argument("--processes", type=int, default=1)
parser.add_argument("--rank", type=int, default=0)
parser.add_argument("--meet", help="a file that does not exist yet, the same for all processes")
arguments = parser.parse_args()

torch.set_num_threads(1)
torch.manual_seed(1337)
tokens = np.memmap(arguments.tokens, dtype=np.uint8, mode="r")
model = GPT(arguments.vocabulary, arguments.layers, arguments.heads, arguments.width,
            arguments.context)
if arguments.processes > 1:
    torch.distributed.init_process_group("gloo", init_method=f"file://{arguments.meet}",
                                         rank=arguments.rank, world_size=arguments.processes)
    model = torch.nn.parallel.DistributedDataParallel(model)
optimizer = adamw(model, 1e-4, 0.1, (0.9, 0.99))
torch.manual_seed(1338 + arguments.rank)  # each process draws samples of its own


def forward(inputs, targets):
    if arguments.precision == "bf16":
        autocast = torch.autocast("cpu", dtype=torch.bfloat16)
    else:
        autocast = contextlib.nullcontext()
    with autocast:
        return model(inputs, targets)


def step():
    starts = torch.randint(len(tokens) - arguments.context, (arguments.batch,))
    windows = torch.stack([torch.from_numpy(tokens[i:i + arguments.context + 1].astype(np.int64))
                           for i in starts])
    loss = forward(windows[:, :-1], windows[:, 1:])
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    return loss.item()


seconds = []
losses = []
all_threads, main_thread = time.process_time(), time.thread_time()
for _ in range(arguments.steps):
    start = time.perf_counter()
    losses.append(step())
    seconds.append(time.perf_counter() - start)
threads = (time.process_time() - all_threads) / (time.thread_time() - main_thread)
print(json.dumps({"seconds": seconds, "losses": losses, "threads": threads}))
