#!/usr/bin/python3
"""Tokens per second of a GPT's training: Lockstep against PyTorch, in turns, in one run.

The machine's speed drifts, so each round times both, one after the other, and the figure to quote
is the median of the rounds' ratios. PyTorch runs one process with one thread, as Lockstep's ranks
do; both do the same work: forward, backward, clipping and AdamW. `small` is nanoGPT's CPU recipe.

usage: nanogpt_speed.py LOCKSTEP-BINARY DATASET.h5 [--model small|large] [--ranks 2] [--rounds 5]
       [--steps 150]
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import tempfile
import time

import h5py
import torch

from torch_models import GPT, adamw

# layers, heads, width, context, batch
MODELS = {"small": (4, 4, 128, 64, 12), "large": (6, 6, 384, 256, 16)}

parser = argparse.ArgumentParser()
parser.add_argument("lockstep")
parser.add_argument("dataset")
parser.add_argument("--model", choices=MODELS, default="small")
parser.add_argument("--ranks", type=int, default=2)
parser.add_argument("--rounds", type=int, default=5)
parser.add_argument("--steps", type=int, default=150)
arguments = parser.parse_args()
LAYERS, HEADS, WIDTH, CONTEXT, BATCH = MODELS[arguments.model]
WARMUP = min(10, arguments.steps // 3)

torch.set_num_threads(1)
with h5py.File(arguments.dataset) as f:
    tokens = torch.tensor(f["train/tokens"][()].astype("int64"))
    vocabulary = int(f.attrs["vocabulary_size"])
model = GPT(vocabulary, LAYERS, HEADS, WIDTH, CONTEXT)
optimizer = adamw(model, 1e-3, 0.1, (0.9, 0.99))


def torch_step():
    starts = torch.randint(len(tokens) - CONTEXT, (BATCH,))
    windows = torch.stack([tokens[i:i + CONTEXT + 1] for i in starts])
    loss = model(windows[:, :-1], windows[:, 1:])
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    loss.item()


def median_speed(step_seconds):
    return BATCH * CONTEXT / statistics.median(step_seconds)


def torch_round():
    seconds = []
    for _ in range(arguments.steps):
        start = time.perf_counter()
        torch_step()
        seconds.append(time.perf_counter() - start)
    return median_speed(seconds[WARMUP:])


def lockstep_round(folder):
    run = pathlib.Path(folder) / "run"
    command = [arguments.lockstep, "train", "--ranks", str(arguments.ranks), "--data",
               arguments.dataset, "--run", str(run), "--steps", str(arguments.steps),
               "--layers", str(LAYERS), "--heads", str(HEADS), "--width", str(WIDTH),
               "--context", str(CONTEXT), "--batch", str(BATCH),
               "--micro-batch", str(BATCH // arguments.ranks), "--eval-every", "0"]
    subprocess.run(command, check=True, capture_output=True)
    lines = [json.loads(line) for line in open(run / "metrics.jsonl")]
    return median_speed([line["step_ms"] / 1e3 for line in lines if "step_ms" in line][WARMUP:])


ratios = []
print(f"{arguments.model}: {LAYERS} layers, {HEADS} heads, width {WIDTH}, context {CONTEXT}, batch "
      f"{BATCH}; {arguments.ranks} ranks against PyTorch {torch.__version__} on one thread; "
      "tokens/s, median step")
print("round  lockstep  pytorch  ratio")
for number in range(arguments.rounds):
    with tempfile.TemporaryDirectory(prefix="lockstep-bench-") as folder:
        ours = lockstep_round(folder)
    theirs = torch_round()
    ratios.append(ours / theirs)
    print(f"{number + 1:5}  {ours:8.0f}  {theirs:7.0f}  {ratios[-1]:5.2f}", flush=True)
print(f"ratio: median {statistics.median(ratios):.2f}, least {min(ratios):.2f}, most "
      f"{max(ratios):.2f}")
