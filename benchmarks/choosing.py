"""Choosing what to label, the live loop, junk and wrong labels, with simulated users.

    python benchmarks/choosing.py PART OUT.json NAME=FEATURES.npz ... [--seeds 0:10]

A file of features holds `features` (N, D) and `labels` (N,), which answer as the user would, and
`upper` as in `frozen.py`: whether all features are used, the labels decide. Each
draw takes a pool with 200 images of each class and 100 more of each class for the test.

pick    20 and 50 labels: by `choose`, and at random; the test error of the solver with both, and of
        logistic regression on the labels alone
live    100 labels, asked in fives by `Live`; beside it as many by `choose` in advance, and all
        labels of the pool; after every ten labels the estimate of the accuracy beside the accuracy
        on the pool's images without a label, and the expected gain of ten labels beside what the
        next ten brought; the errors of labels alone, too
junk    10 labels a class, a pool of which half is junk: of the second file, or held-back classes
new     the same pools, or none of it junk: test images beside as many of the junk's kind
wrong   20 labels a class, a tenth of them flipped
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.metrics import roc_auc_score
from torch import Tensor

from tamatch.frozen.blocks import telling
from tamatch.frozen.choose import choose
from tamatch.frozen.junk import solve_with_junk
from tamatch.frozen.likeness import Likeness
from tamatch.frozen.live import FIRST, STEP, UNKNOWN, Live, gain
from tamatch.frozen.regression import labels_alone, logits
from tamatch.frozen.solver import solve
from tamatch.frozen.suspects import guessed_from_others, suspects

POOL, TEST = 200, 100  # images a class
COUNTS, EARLY = (20, 50), 30
ASKED = 5  # images to label between two answers; the page has a new one after each label
LABELS, MANY, FLIPPED = 10, 20, 0.1
Data = dict[str, tuple[Tensor, Tensor]]
UPPER: dict[int, int] = {}  # of features that are so wide, how many are of the net's last block


def draw(y: Tensor, seed: int, classes: list[int] | None = None) -> tuple[Tensor, Tensor]:
    """Positions of a pool and of test images, in random order."""
    g = torch.Generator().manual_seed(seed)
    pool, test = [], []
    for c in y.unique().tolist() if classes is None else classes:
        own = (y == c).nonzero()[:, 0]
        own = own[torch.randperm(len(own), generator=g)]
        test.append(own[:TEST])
        pool.append(own[TEST : TEST + POOL])
    both = torch.cat(pool)
    return both[torch.randperm(len(both), generator=g)], torch.cat(test)


def used(known: Tensor, labels: Tensor, others: Tensor) -> int:
    """How many of the features tell the classes by these labels."""
    told = torch.cat([labels, torch.full((len(others),), -1)])
    width = known.shape[1]
    return telling(torch.cat([known, others]), told, UPPER.get(width, width)).shape[1]


def errors(
    x: Tensor, y: Tensor, pool: Tensor, test: Tensor, chosen: Tensor, name: str
) -> dict[str, float]:
    """With these labels of the pool, of two learners; a class without a label is never right."""
    known, rest = pool[chosen], pool[~torch.isin(torch.arange(len(pool)), chosen)]
    classes, labels = y[known].unique(return_inverse=True)
    x = x[:, : used(x[known], labels, x[rest])]
    both = {
        name: solve(x[known], labels, x[rest], len(classes)).logits(x[test]),
        f"{name} alone": logits(x[test], labels_alone(x[known], labels, len(classes))),
    }
    return {
        told: 100 * float((classes[said.argmax(1)] != y[test]).float().mean())
        for told, said in both.items()
    }


def picks(data: Data, name: str, seed: int) -> dict[str, Any]:
    x, y = data[name]
    pool, test = draw(y, seed)
    g = torch.Generator().manual_seed(seed)
    ways = {
        "chosen": choose(x[pool], max(COUNTS)),
        "random": torch.randperm(len(pool), generator=g),
    }
    row: dict[str, Any] = {}
    for way, order in ways.items():
        for count in COUNTS:
            row |= errors(x, y, pool, test, order[:count], f"{way} {count}")
        for count in (*COUNTS, EARLY):
            row[f"{way} {count} classes"] = len(y[pool[order[:count]]].unique())
    return row


def live_loop(data: Data, name: str, seed: int) -> dict[str, Any]:
    x, y = data[name]
    pool, test = draw(y, seed)
    truth = y[pool]
    advance, counts = choose(x[pool], 100), (*COUNTS, 100)
    row: dict[str, Any] = {}
    for count in counts:
        row |= errors(x, y, pool, test, advance[:count], f"in advance {count}")
    row |= errors(x, y, pool, test, torch.arange(len(pool)), "all labels")
    live, answer, before, stops = Live(x[pool], seed, UPPER.get(x.shape[1])), None, None, []
    while (asked := int((live.labels != UNKNOWN).sum())) < 100:
        for image, drawn in live.next(ASKED, answer):
            live.labels[image], live.drawn[image] = truth[image], drawn
        asked += ASKED
        began = time.perf_counter()
        answer = live.answer() if asked >= FIRST else None  # it chooses nothing before
        seconds = time.perf_counter() - began
        if asked in counts:
            known = (live.labels != UNKNOWN).nonzero()[:, 0]
            row |= errors(x, y, pool, test, known, f"live {asked}")
        if answer is None or asked % STEP:
            continue
        left = live.labels == UNKNOWN
        stop: dict[str, Any] = {"labels": asked, "seconds": round(seconds, 2), "junk": answer.junk}
        stop["accuracy"] = float((answer.guess == truth)[left].float().mean())
        judged = live.estimate(answer)
        stop |= {"judged": judged.judged, "estimate": judged.accuracy, "interval": judged.interval}
        if before is not None:
            stop["gain"] = gain(before, answer)
        stops.append(stop)
        before = answer
    row["junk"] = float(np.mean([stop["junk"] for stop in stops]))
    told = [s for s in stops if s["judged"]]
    row["stops"], row["told"] = stops, len(told)
    row["covered"] = sum(s["interval"][0] <= s["accuracy"] <= s["interval"][1] for s in told)
    row["width"] = float(np.mean([s["interval"][1] - s["interval"][0] for s in told]))
    return row


def junk(data: Data, name: str, seed: int) -> dict[str, Any]:
    x, y = data[name]
    random = np.random.RandomState(seed)
    others, upper = [other for other in data if other != name], UPPER.get(x.shape[1])
    row: dict[str, Any] = {}
    for kind in (*(f"{other} in it" for other in others), "held-back classes"):
        every = random.permutation(int(y.max()) + 1).tolist()
        classes = every[: len(every) // 2] if kind == "held-back classes" else every
        pool, test = draw(y, seed, classes)
        foreign = data[others[0]] if others and kind != "held-back classes" else (x, y)
        back = [c for c in every if c not in classes] or None
        odd, _ = draw(foreign[1], seed, back)
        number = torch.full((int(y.max()) + 1,), -1)
        number[torch.tensor(classes)] = torch.arange(len(classes))
        known = torch.cat([pool[y[pool] == c][:LABELS] for c in classes])
        rest = pool[~torch.isin(pool, known)]
        mixed = torch.cat([x[rest], foreign[0][odd][: len(rest)]])
        told = used(x[known], number[y[known]], mixed)
        mixed, given = mixed[:, :told], (x[known, :told], number[y[known]])
        found = solve_with_junk(*given, mixed, len(classes), upper=upper)
        heads = {
            "clean": solve(*given, x[rest, :told], len(classes)).head,
            "labels alone": labels_alone(*given, len(classes)),
            "junk unknown": solve(*given, mixed, len(classes)).head,
            "junk weighed": found.solution.head,
            "clean, weighed": solve_with_junk(
                *given, x[rest, :told], len(classes), upper=upper
            ).solution.head,
        }
        for way, head in heads.items():
            wrong = logits(x[test, :told], head).argmax(1) != number[y[test]]
            row[f"{kind}: {way}"] = 100 * float(wrong.float().mean())
        belongs = torch.arange(len(mixed)) < len(rest)
        row[f"{kind}: AUROC"] = float(roc_auc_score(belongs.numpy(), found.score.numpy()))
        row[f"{kind}: estimated share of junk"] = found.junk
    return row


def new_images(data: Data, name: str, seed: int) -> dict[str, Any]:
    """How well `Likeness` tells images apart that were not in the pool."""
    x, y = data[name]
    upper = UPPER.get(x.shape[1])
    row: dict[str, Any] = {}
    for other in data:
        every = np.random.RandomState(seed).permutation(int(y.max()) + 1).tolist()
        classes = every if other != name else every[: len(every) // 2]
        kind = f"{other} in it" if other != name else "held-back classes"
        pool, test = draw(y, seed, classes)
        odd, new = draw(data[other][1], seed, every[len(classes) :] or None)
        number = torch.full((int(y.max()) + 1,), -1)
        number[torch.tensor(classes)] = torch.arange(len(classes))
        known = torch.cat([pool[y[pool] == c][:LABELS] for c in classes])
        rest = x[pool[~torch.isin(pool, known)]]
        both = torch.cat([x[test], data[other][0][new]])
        truth = torch.arange(len(both)) < len(test)
        for how, junk_in_it in (
            ("", data[other][0][odd][: len(rest)]),
            (", not in the pool", x[:0]),
        ):
            mixed, given = torch.cat([rest, junk_in_it]), (x[known], number[y[known]])
            told = used(*given, mixed)
            mixed, given = mixed[:, :told], (x[known, :told], given[1])
            weight = solve_with_junk(*given, mixed, len(classes), upper=upper).weight
            above = given[0][:, :upper], given[1], mixed[:, :upper]
            belongs = Likeness.of(*above, weight, len(classes), x[:0, :upper])(both[:, :upper])
            row[f"{kind}{how}: AUROC"] = float(roc_auc_score(truth.numpy(), belongs.numpy()))
            row[f"{kind}{how}: belongs, of a class"] = float(belongs[truth].mean())
            row[f"{kind}{how}: belongs, of none"] = float(belongs[~truth].mean())
    return row


def wrong_labels(data: Data, name: str, seed: int) -> dict[str, Any]:
    x, y = data[name]
    pool, _ = draw(y, seed)
    classes = int(y.max()) + 1
    known = torch.cat([pool[y[pool] == c][:MANY] for c in range(classes)])
    rest = pool[~torch.isin(pool, known)]
    g = torch.Generator().manual_seed(seed)
    flipped = torch.randperm(len(known), generator=g)[: round(FLIPPED * len(known))]
    labels = y[known].clone()
    labels[flipped] += torch.randint(1, classes, (len(flipped),), generator=g)
    labels %= classes
    x = x[:, : used(x[known], labels, x[rest])]
    found = suspects(guessed_from_others(x[known], labels, x[rest], classes), labels)
    first = found.order[: len(known) // 5]
    return {"found in the first fifth": float(torch.isin(flipped, first).float().mean())}


PARTS: dict[str, Callable[[Data, str, int], dict[str, Any]]] = {
    "pick": picks, "live": live_loop, "junk": junk, "new": new_images,
    "wrong": wrong_labels,
}  # fmt: skip


def summary(rows: list[dict[str, Any]]) -> Iterator[tuple[str, Any]]:
    for key, first in rows[0].items():
        if isinstance(first, int | float):
            values = [row[key] for row in rows]
            told = {"mean": np.mean(values), "deviation": np.std(values), "least": np.min(values)}
            yield key, {k: round(float(v), 3) for k, v in told.items()}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("part", choices=PARTS)
    parser.add_argument("out", type=Path)
    parser.add_argument("features", nargs="+")
    parser.add_argument("--seeds", default="0:10", help="FIRST:LAST, without the last")
    parser.add_argument("--only", help="of the features, those that are measured")
    options = parser.parse_args()
    torch.set_num_threads(1)
    data: Data = {}
    for name, path in (item.split("=", 1) for item in options.features):
        with np.load(path) as file:
            labels = torch.from_numpy(file["labels"].astype(np.int64))
            data[name] = torch.from_numpy(file["features"].astype(np.float32)), labels
            if "upper" in file:
                UPPER[file["features"].shape[1]] = int(file["upper"])
    record: dict[str, Any] = {}
    for name in [options.only] if options.only else data:
        rows: list[dict[str, Any]] = []
        for seed in range(*map(int, options.seeds.split(":"))):
            rows.append(PARTS[options.part](data, name, seed))
            record[name] = {"draws": rows, "summary": dict(summary(rows))}
            options.out.write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n")
            shown = {k: v for k, v in rows[-1].items() if k != "stops"}
            print(name, seed, json.dumps(shown, ensure_ascii=False), flush=True)
        for key, value in record[name]["summary"].items():
            print(name, key, value, flush=True)


if __name__ == "__main__":
    main()
