#!/usr/bin/python3
"""Loss, every gradient tensor and 20 AdamW steps against PyTorch, from the same weights and batch.

Nothing of Lockstep is linked: datasets are written and checkpoints read with h5py, as any user
would. A dataset holds exactly as many samples as a batch, so every step takes all of them and the
order, over which a mean does not depend, need not be known. One step of SGD at learning rate 0
leaves the initial weights in a checkpoint, and the gradient beside them as the momentum buffer.

usage: compare_with_pytorch.py LOCKSTEP-BINARY
"""

import json
import pathlib
import subprocess
import sys
import tempfile

import h5py
import numpy as np
import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "bench" / "peers"))
from torch_models import GPT, MLP, adamw, learning_rate  # noqa: E402

GRADIENT_BAR = 1e-5  # relative, a tensor
LOSS_BAR = 1e-4      # a step of 20
STEPS = 20

GPT_SHAPE = dict(layers=3, heads=4, width=64, context=32)
VOCABULARY = 65
MLP_HIDDEN = [48, 32]
ROWS, COLS, CLASSES = 12, 12, 10
BATCH = 16

lockstep = sys.argv[1]
folder = tempfile.TemporaryDirectory(prefix="lockstep-peer-")
root = pathlib.Path(folder.name)
random = np.random.default_rng(1337)
passed = failed = 0


def check(what, value, bar):
    global passed, failed
    good = value < bar  # false for NaN
    passed += good
    failed += not good
    print(f"{'ok  ' if good else 'FAIL'}  {what}: {value:.2e} (bar {bar:g})")


def exceeds(value, worst):
    """NaN exceeds any number, and no number exceeds it: once found it is not forgotten."""
    return not (np.isnan(worst) or value <= worst)


def write_text(path):
    tokens = random.integers(0, VOCABULARY, GPT_SHAPE["context"] + BATCH, dtype=np.uint8)
    with h5py.File(path, "w") as f:
        f.attrs["format"] = "lockstep-dataset"
        f.attrs["format_version"] = 1
        f.attrs["kind"] = "text"
        f.attrs["vocabulary_size"] = VOCABULARY
        f["train/tokens"] = tokens
    starts = [tokens[i:i + GPT_SHAPE["context"] + 1].astype(np.int64) for i in range(BATCH)]
    both = torch.tensor(np.stack(starts))
    return both[:, :-1], both[:, 1:]


def write_images(path):
    images = random.integers(0, 256, (BATCH, ROWS, COLS), dtype=np.uint8)
    labels = random.integers(0, CLASSES, BATCH, dtype=np.uint8)
    labels[0] = CLASSES - 1
    with h5py.File(path, "w") as f:
        f.attrs["format"] = "lockstep-dataset"
        f.attrs["format_version"] = 1
        f.attrs["kind"] = "images"
        f.attrs["classes"] = CLASSES
        f["train/images"] = images
        f["train/labels"] = labels
    pixels = torch.tensor(images.reshape(BATCH, -1).astype(np.float32) / np.float32(255))
    return pixels, torch.tensor(labels.astype(np.int64))


def train(run, data, ranks, model_flags, flags):
    command = [lockstep, "train", "--ranks", str(ranks), "--data", str(data), "--run", str(run),
               "--batch", str(BATCH), "--eval-every", "0", *model_flags, *flags]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}\nexit {done.returncode}\n{done.stdout}{done.stderr}")
    lines = [json.loads(line) for line in open(run / "metrics.jsonl")]
    name = (run / "checkpoints" / "latest").read_text().strip()
    return [line["loss"] for line in lines if "loss" in line], run / "checkpoints" / name


def flatten(group):
    found = {}
    group.visititems(lambda name, item: found.update({name: item[()]})
                     if isinstance(item, h5py.Dataset) else None)
    return found


def load(model, parameters):
    with torch.no_grad():
        for name, p in model.named_parameters():
            p.copy_(torch.tensor(parameters[name]))


def compare(kind, model, inputs, targets, data, ranks, model_flags):
    names = {name for name, _ in model.named_parameters()}

    # One step that moves nothing: initial weights, their loss, their gradient.
    losses, checkpoint = train(root / f"{kind}-{ranks}-gradient", data, ranks, model_flags,
                               ["--optimizer", "sgd", "--steps", "1", "--lr", "0", "--min-lr", "0",
                                "--clip", "0", "--weight-decay", "0"])
    with h5py.File(checkpoint) as f:
        parameters = flatten(f["parameters"])
        gradients = flatten(f["optimizer/momentum_buffer"])
    if set(parameters) != names:
        sys.exit(f"{kind}: tensors differ by name: {set(parameters) ^ names}")
    load(model, parameters)
    loss = model(inputs, targets)
    loss.backward()
    check(f"{kind}, {ranks} ranks: loss, relative", abs(losses[0] / loss.item() - 1), GRADIENT_BAR)
    worst, where = 0.0, ""
    for name, p in model.named_parameters():
        expected = p.grad.numpy().astype(np.float64)
        error = np.linalg.norm(gradients[name] - expected) / np.linalg.norm(expected)
        if exceeds(error, worst):
            worst, where = error, name
    check(f"{kind}, {ranks} ranks: gradients of {len(names)} tensors, worst ({where})", worst,
          GRADIENT_BAR)

    # The control: a gradient of other weights must not pass.
    with torch.no_grad():
        next(iter(model.parameters())).mul_(1.01)
    model.zero_grad()
    model(inputs, targets).backward()
    other = next(iter(model.parameters())).grad.numpy()
    name = next(iter(dict(model.named_parameters())))
    if np.linalg.norm(other - gradients[name]) / np.linalg.norm(other) < GRADIENT_BAR:
        sys.exit(f"{kind}: the check cannot tell one gradient from another")

    # 20 steps of AdamW with warm-up, cosine, decay and clipping.
    losses, _ = train(root / f"{kind}-{ranks}-adamw", data, ranks, model_flags,
                      ["--steps", str(STEPS), "--lr", "1e-3", "--min-lr", "1e-4", "--warmup", "5",
                       "--weight-decay", "0.1", "--beta2", "0.99", "--clip", "1.0"])
    load(model, parameters)
    optimizer = adamw(model, 1e-3, 0.1, (0.9, 0.99))
    worst = 0.0
    for step in range(STEPS):
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(step, 1e-3, 1e-4, 5, STEPS)
        optimizer.zero_grad()
        loss = model(inputs, targets)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        difference = abs(losses[step] - loss.item())
        if exceeds(difference, worst):
            worst = difference
    check(f"{kind}, {ranks} ranks: losses of {STEPS} AdamW steps, worst", worst, LOSS_BAR)


torch.set_num_threads(1)
print(f"PyTorch {torch.__version__}")
tokens, targets = write_text(root / "text.h5")
pixels, labels = write_images(root / "images.h5")
gpt_flags = ["--model", "gpt"]
for flag, value in GPT_SHAPE.items():
    gpt_flags += [f"--{flag}", str(value)]
for ranks in (1, 2):
    compare("gpt", GPT(VOCABULARY, **GPT_SHAPE), tokens, targets, root / "text.h5", ranks,
            gpt_flags)
    for activation in ("relu", "gelu"):
        compare(f"mlp-{activation}", MLP([ROWS * COLS, *MLP_HIDDEN, CLASSES], activation), pixels,
                labels, root / "images.h5", ranks,
                ["--model", "mlp", "--hidden", ",".join(map(str, MLP_HIDDEN)),
                 "--activation", activation])
print(f"{passed} passed, {failed} failed")
sys.exit(failed > 0)
