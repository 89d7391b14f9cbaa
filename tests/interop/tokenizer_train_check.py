#!/usr/bin/env python3
"""Compares tokenizers that Athanor learns with Hugging Face's library: its trainer, its encoding, its decoding.

    tests/interop/tokenizer_train_check.py build/release/athanor TEXT.jsonl [VOCAB]

Learns both kinds of BPE from TEXT.jsonl (objects with `text`); the byte-level one must have the merges and the
vocabulary that Hugging Face's trainer learns from the same documents, and both must encode and decode the texts and a
hostile sample as AutoTokenizer does (tokenizer_check.py). Needs Python with transformers 5 and tokenizers. Exits 0 when
all of it agrees. Words of more than 256 bytes are cut in training, by Athanor alone: documents with such are left out.
"""

import json
import os
import re
import subprocess
import sys
import tempfile

from tokenizers import Regex, Tokenizer, models, pre_tokenizers, trainers


def learned(binary, text, vocab, kind, out):
    subprocess.run([binary, "tokenizer", "train", text, "--out", out, "--vocab", str(vocab), "--kind", kind],
                   check=True, stdout=subprocess.DEVNULL)
    with open(os.path.join(out, "tokenizer.json"), encoding="utf-8") as file:
        return json.load(file)


def reference(texts, vocab, ours):
    """What Hugging Face's trainer makes of the texts, given our pattern and special tokens."""
    pattern = ours["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"]
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Split(Regex(pattern), "isolated"),
         pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tokenizer.train_from_iterator(texts, trainers.BpeTrainer(
        vocab_size=vocab, min_frequency=2, show_progress=False,
        special_tokens=[token["content"] for token in ours["added_tokens"]],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    return json.loads(tokenizer.to_str())["model"]


def main():
    binary, source = sys.argv[1], sys.argv[2]
    vocab = int(sys.argv[3]) if len(sys.argv) > 3 else 8192
    with open(source, encoding="utf-8") as lines:
        texts = [json.loads(line)["text"] for line in lines if line.strip()]
    texts = [text for text in texts if not re.search(r"\w{80}|[^\w ]{80}| {250}", text)]
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        text = os.path.join(folder, "text.jsonl")
        with open(text, "w", encoding="utf-8") as lines:
            lines.writelines(json.dumps({"text": one}) + "\n" for one in texts)
        for kind in ("byte-level", "byte-fallback"):
            out = os.path.join(folder, kind)
            ours = learned(binary, text, vocab, kind, out)
            if kind == "byte-level":
                theirs = reference(texts, vocab, ours)
                same = ours["model"]["merges"] == theirs["merges"] and ours["model"]["vocab"] == theirs["vocab"]
                print(f"{len(texts)} documents, {len(theirs['merges'])} merges: " + ("the same" if same else "they differ"))
                wrong += not same
            check = os.path.join(os.path.dirname(os.path.abspath(__file__)), "tokenizer_check.py")
            # A mark that stands for a space comes back as one.
            marked = os.path.join(folder, "marked.jsonl")
            with open(marked, "w", encoding="utf-8") as lines:
                lines.writelines(json.dumps({"text": one.replace("\u2581", "_")}) + "\n" for one in texts[:300])
            wrong += subprocess.run([sys.executable, check, binary, out, marked]).returncode
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
