#!/usr/bin/env python3
"""Compares an exported tokenizer with Hugging Face's reading of it, over a hostile sample.

    tests/interop/tokenizer_check.py build/release/athanor FOLDER [TEXT.jsonl]

FOLDER holds tokenizer.json and tokenizer_config.json (any model directory, checkpoint or pack); TEXT.jsonl adds texts
of your own. Needs Python with transformers 5 and tokenizers. Prints one line and exits 0 when all ids and all decoded
texts agree, 1 with the first differences otherwise.

Unigram models may differ where two segmentations have exactly the same score: such cases are counted and listed apart,
and are accepted when both spell the same text with scores that are equal to float rounding.
"""

import json
import random
import subprocess
import sys
import tempfile

from transformers import AutoTokenizer

ALPHABETS = [
    "abcdefghijklmnopqrstuvwxyz ABC .,;:'\"!?\n",
    " \t\r\n\v\f\u00a0\u2003\u200b\u2028\u2029\u0085\ufeff",
    "0123456789+-*/=()[]{}<>|\\^~`@#$%&_",
    "àéîõüßøåæœçñÀÉ\u0301\u0308\u0323e\u0301",
    "日本語の文章です。中文字符한국어조선말",
    "Привет мир Ελληνικά עברית العربية हिन्दी ไทย",
    "😀👩🏽‍💻🇩🇪𝒳\U0010ffff\U0001f600",
    "\0\x01\x1f\x7f\ue000\ufffd",
    "▁ ▁▁ a",
]


def sample(count, seed):
    """Fixed traps, then seeded mixtures."""
    texts = [
        "", " ", "  ", "\n", "\n\n", "\t", "\r\n", "a", " a", "a ", "  a  b   c ", "\0", "a\0b\0\0c",
        "In the beginning God created the heaven and the earth.",
        "And God said,\n  1 Let there be light:\n\n\nand there was light.",
        "▁", "▁▁", "a▁b", " ▁ ", "x" * 5000, "ab" * 3000, " " * 1000, "\n" * 999, "ha" * 777,
        "e\u0301 é \u1e0b\u0323", "\ufeffmark", "\u2581\u2585\u2047", "<0x4", "<s", "</", "<un",
        "👩🏽‍💻 family 👨‍👩‍👧‍👦", "日本語" * 200, "wordswithoutanyspace" * 100,
        "l'université dell'Aquila è più in là", "naïve café — “quotes” … ½ ①②③ ﷽",
    ]
    draw = random.Random(seed)
    for _ in range(count):
        text = ""
        for _ in range(draw.randint(1, 8)):
            alphabet = draw.choice(ALPHABETS)
            text += "".join(draw.choice(alphabet) for _ in range(draw.randint(1, 40)))
        texts.append(text)
    return texts


def ours(binary, folder, texts):
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as lines:
        for text in texts:
            lines.write(json.dumps({"text": text}) + "\n")
        lines.flush()
        out = subprocess.run([binary, "tokenizer", "encode", folder, "--jsonl", lines.name],
                             check=True, capture_output=True, text=True).stdout
    ids = [json.loads(line)["ids"] for line in out.split("\n") if line]
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as lines:
        for row in ids:
            lines.write(json.dumps({"ids": row}) + "\n")
        lines.flush()
        out = subprocess.run([binary, "tokenizer", "decode", folder, "--jsonl", lines.name],
                             check=True, capture_output=True, text=True).stdout
    return ids, [json.loads(line)["text"] for line in out.split("\n") if line]


def main():
    binary, folder = sys.argv[1], sys.argv[2]
    texts = sample(2000, seed=7)
    if len(sys.argv) > 3:
        with open(sys.argv[3], encoding="utf-8") as lines:
            texts += [json.loads(line)["text"] for line in lines if line.strip()]
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = json.loads(tokenizer.backend_tokenizer.to_str())["model"]
    scores = [score for _, score in model["vocab"]] if model["type"] == "Unigram" else None
    ids, decoded = ours(binary, folder, texts)
    assert len(ids) == len(texts), f"{len(ids)} lines for {len(texts)} texts"
    ties, wrong = 0, []
    for text, row, back in zip(texts, ids, decoded):
        theirs = tokenizer.encode(text, add_special_tokens=False)
        same_text = back == tokenizer.decode(row, skip_special_tokens=True)
        round_trip = back == text.replace("\u2581", " ") if tokenizer.unk_token else back == text
        if theirs != row and scores and len(theirs) > 0:
            gap = abs(sum(scores[i] for i in theirs) - sum(scores[i] for i in row))
            if gap <= 1e-5 * max(1, abs(sum(scores[i] for i in row))):
                ties += 1
                theirs = row
        if theirs != row or not same_text or not round_trip:
            wrong.append((text[:60], row[:12], theirs[:12], back[:60]))
    if wrong:
        print(f"{len(wrong)} of {len(texts)} texts differ; text, our ids, theirs, our decoding:")
        for case in wrong[:10]:
            print("  ", *map(repr, case))
        return 1
    print(f"{folder}: {len(texts)} texts, {sum(map(len, ids))} ids: the same ({ties} ties)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
