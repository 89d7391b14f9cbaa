#!/usr/bin/env python3
"""Compares an exported model with Hugging Face's reading of it: ids, logits and greedy text.

    tests/interop/model_check.py build/release/athanor MODEL

MODEL is a model directory with its tokenizer. Needs Python with transformers 5.24.0 and torch 2.13.0. Prints one line and
exits 0 when everything agrees, 1 with what differs otherwise.
"""

import json
import subprocess
import sys
import tempfile

import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, AutoTokenizer

TEXT = "In the beginning God created the heaven and the earth. Où? 日本 😀\n"
TOLERANCE = 1e-4  # of fp32 logits of order 1
TOKENS = 24


def main():
    binary, folder = sys.argv[1], sys.argv[2]
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    ids = tokenizer(TEXT, add_special_tokens=False).input_ids
    failures = []

    def athanor(*arguments):
        return subprocess.run([binary, *arguments], check=True, capture_output=True, text=True).stdout

    with tempfile.TemporaryDirectory() as scratch:
        with open(f"{scratch}/text.jsonl", "w", encoding="utf-8") as file:
            file.write(json.dumps({"text": TEXT}) + "\n")
        ours = json.loads(athanor("tokenizer", "encode", folder, "--jsonl", f"{scratch}/text.jsonl"))["ids"]
        if ours != ids:
            failures.append(f"ids: {ours} and {ids}")

        save_file({"input_ids": torch.tensor([ids])}, f"{scratch}/batch.safetensors")
        athanor("probe", folder, "--batch", f"{scratch}/batch.safetensors", "--out", f"{scratch}/out.safetensors",
                "--precision", "fp32")
        logits = load_file(f"{scratch}/out.safetensors")["logits"]
        with torch.no_grad():
            expected = model(torch.tensor([ids])).logits
        error = (logits - expected).abs().max().item()
        if not error <= TOLERANCE:
            failures.append(f"logits differ by {error}")

    with torch.no_grad():
        generated = model.generate(torch.tensor([ids]), max_new_tokens=TOKENS, do_sample=False)[0][len(ids):].tolist()
    result = json.loads(athanor("generate", folder, "--ids", ",".join(map(str, ids)), "--max-tokens", str(TOKENS),
                                "--temperature", "0", "--precision", "fp32", "--json").splitlines()[-1])
    if result["ids"] != generated:
        failures.append(f"greedy ids: {result['ids']} and {generated}")
    if result["text"] != tokenizer.decode(generated, skip_special_tokens=True):
        failures.append(f"greedy text: {result['text']!r}")
    if failures:
        print("\n".join(failures))
        return 1
    print(f"{folder}: {len(ids)} ids, logits within {error:.1e}, {len(generated)} greedy tokens: the same")
    return 0


if __name__ == "__main__":
    sys.exit(main())
