"""Every error that a user can cause, with its message: one table, and a test that it is complete.

`COMMANDS` is what one types, `CALLS` what one calls from Python, and `ELSEWHERE` names the test of
an error that needs more than a line to cause. A new error needs a row in one of them.
"""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch

import tamatch
from tamatch import errors
from tamatch.apply import export
from tamatch.apply.label import label
from tamatch.cli import main
from tamatch.data.layout import list_images
from tamatch.errors import TamatchError
from tamatch.machine import launch
from tamatch.settings import hardware
from tamatch.storage.folder import RunFolder
from tests.shop import furnish

ROOT = Path(__file__).parents[1]
ANY = "<any>"  # what depends on the machine or on a version
HOLE = "\0"  # a value in a message of the source
KINDS = {name for name, kind in vars(errors).items() if isinstance(kind, type)}

COMMANDS = [
    ("trian", 2, "command trian is unknown. Perhaps you meant train."),
    ("--verison", 2, "--verison is not an option of `tamatch`. Perhaps you meant --version."),
    ("-v", 2, "-v is not an option of `tamatch`. See `tamatch --help`."),
    ("methods --jsn", 2, "--jsn is not an option of `tamatch methods`. Perhaps you meant --json."),
    ("predict runs/photos photos --quick", 2,
     "--quick is not an option of `tamatch predict`. See `tamatch predict --help`."),
    ("resume runs/half --steps 100", 2,
     "--steps: a resumed run keeps its settings. `tamatch train --from runs/half --steps 100` "
     "starts a new run from its weights."),
    ("resume runs/half --ent own.py:X", 2,
     "--ent is not an option of `tamatch resume`. Perhaps you meant --net."),
    ("train -data digits", 2,
     "'-data' is not an option; write options as --name value. Perhaps you meant --data."),
    ("train --output runs/new", 2,
     "--output is not an option. Perhaps you meant --out (run folder)."),
    ("train --epochs 10", 2,
     "--epochs is not an option. Perhaps you meant --steps (training steps)."),
    ("train --learning-rate 0.1", 2,
     "--learning-rate is not an option. Perhaps you meant --lr (learning rate)."),
    ("train --labels 4", 2,
     "--labels takes a CSV file of labels, got 4. Perhaps you meant --labels-per-class 4."),
    ("train --prior 3,1 --target labelled", 2,
     "--prior and --target labelled both set the class shares: give only one."),
    ("train --method freematch --tau 0.8", 2,
     "--tau has no effect with --select freematch: it applies only to --select fixed or "
     "relative or flexmatch."),
    ("train --method tamatch_no_weighting --clip none", 2,
     "--clip has no effect with --weigh even: it applies only to --weigh class or class*gaussian."),
    ("train --method tamatch_no_rescaling --generate rescale", 2,
     "tamatch_no_rescaling fixes --generate at raw. For --generate rescale, use --method tamatch."),
    ("train --method tamatch_no_ema_target --lambda-target none", 2,
     "tamatch_no_ema_target fixes --lambda-target at 1.0. For --lambda-target none, use "
     "--method tamatch."),
    ("bench lt --list --show", 2,
     "--show and --list cannot be used together. See `tamatch bench lt --help`."),
    ("bench report --results resluts", 2,
     "--results resluts is not a folder. The page was not changed."),
    ("train --method FixMatch", 2,
     "--method FixMatch is not a method. Perhaps you meant fixmatch."),
    ("export runs/photos --format ONNX", 2, "--format ONNX is unknown. Perhaps you meant onnx."),
    ("check --data photos", 2,
     "--data is not an option of `tamatch check`. Perhaps you meant NAME|DIR by itself, without "
     "--data."),
    ("predict --run runs/photos photos", 2,
     "--run is not an option of `tamatch predict`. Perhaps you meant RUN by itself, without "
     "--run."),
    ("train --status 5", 2,
     "--status is not an option. Perhaps you meant --tau (confidence threshold, default 0.95)."),
    ("methods --json=5", 2, "--json takes no value, got '5'. See `tamatch methods --help`."),
    ("methods fixmach", 2,
     "--method fixmach is not a method. Perhaps you meant fixmatch or defixmatch or mixmatch."),
    ("resume", 2, "RUN is missing. See `tamatch resume --help`."),
    ("predict runs/photos photos --top two", 2,
     "--top takes a whole number, got 'two'. See `tamatch predict --help`."),
    ("predict runs/photos photos --format xml", 2,
     "--format xml is unknown. Available: csv, jsonl."),
    ("predict runs/photos photos --out a --csv b", 2,
     "--csv and --out cannot be used together. See `tamatch predict --help`."),
    ("predict runs/photos photos --csv a --format jsonl", 2,
     "--csv always writes CSV: for --format jsonl, use --out."),
    ("train --steps", 2, "--steps needs a value. See `tamatch train --help`."),
    ("train --tau", 2, "--tau needs a value."),
    ("train --tau 1.5", 2, "--tau must lie in (0, 1), got 1.5."),
    ("train --tua 0.5", 2,
     "--tua is not an option. Perhaps you meant --tau (confidence threshold, default 0.95)."),
    ("train --zzz 0.5", 2,
     "--zzz is not an option. `tamatch train --help` lists the options of a run, `tamatch "
     "methods tamatch` those of the method."),
    ("train --method fixmatch --rho-min 0.1", 2,
     "--rho-min is an option of dash, but not of fixmatch. `tamatch methods fixmatch` "
     "lists those it has."),
    ("train --method supervised --tau 0.9", 2,
     "--tau is an option of pseudo_label and 15 other methods, but not of supervised. `tamatch "
     "methods supervised` lists those it has."),
    ("train --seeds 0,,x", 2,
     "--seeds takes comma-separated whole numbers, such as 0,1,2; got '0,,x'."),
    ("train --seeds 0 1", 2, "--seeds takes comma-separated values: --seeds 0,1."),
    ("train --seeds 0, 1 2 --steps 5", 2, "--seeds takes comma-separated values: --seeds 0,1,2."),
    ("train --seed 0 1", 2, "--seed takes one value. For several, use --seeds 0,1."),
    ("train --steps 5 --seed 0,1,2", 2, "--seed takes one value. For several, use --seeds 0,1,2."),
    ("train --seeds 0,1 digits", 2,
     "'digits' is not an option; write options as --name value. Perhaps you meant --data digits."),
    ("train --seeds 0,1,0", 2, "--seeds lists 0 twice."),
    ("train --seeds 0,1 --seed 1", 2,
     "--seed and --seeds cannot be used together."),
    ("train --seeds 0,4294967296", 2, "--seed must lie in [0, 4294967295], got 4294967296."),
    ("train --seeds 0,1 --out taken-folder", 2,
     "--out taken-folder is not empty; --seeds needs a folder of its own. Choose a different "
     "--out."),
    ("train --seeds 0,1 --out runs/photos", 2,
     "--out runs/photos contains a run; --seeds needs a folder of its own. Choose a different "
     "--out."),
    ("train --seeds 0,1 --out taken-file", 2,
     "--out taken-file cannot be created: File exists. Choose a different --out."),
    ("train --seeds 0,1 --out seeds", 2,
     "--out seeds already contains the seeds 4, 5. Choose a different --out."),
    ("resume seeds", 2, "seeds/s4 is not a folder. Give a run folder, such as runs/demo."),
    ("resume no-seeds", 3,
     "no-seeds/seeds.json is damaged: it does not list the seeds. Restore it, or give the run "
     "folders next to it."),
    ("label seeds --out new.csv", 2,
     "seeds contains several runs, one per seed. Give one of them, such as seeds/s0."),
    ("train --steps ten", 2, "--steps takes a whole number, got 'ten'."),
    ("train --steps 0", 2, "--steps must be at least 1, got 0."),
    ("train --lr nan", 2, "--lr takes a number, got 'nan'."),
    ("train --graph maybe", 2, "'maybe' is not an option; write options as --name value."),
    ("train digits", 2,
     "'digits' is not an option; write options as --name value. Perhaps you meant --data digits."),
    ("train --optimizer adamv", 2,
     "--optimizer takes sgd, adamw; got 'adamv'. Perhaps you meant adamw."),
    ("train --optimizer SGD", 2, "--optimizer takes sgd, adamw; got 'SGD'. Perhaps you meant sgd."),
    ("train --prior a,b", 2, "--prior takes comma-separated numbers, got 'a,b'."),
    ("train --prior 1=a,2=b", 2, "--prior takes comma-separated numbers, got '1=a,2=b'."),
    ("train --target named.yaml", 2,
     "--prior or --target gives a share for 'ten', which is not a class of digits; '9' has no "
     "share."),
    ("train --prior=1,-1,1", 2, "--prior: class shares must be non-negative and not all zero."),
    ("train --method fixmach", 2,
     "--method fixmach is not a method. Perhaps you meant fixmatch or defixmatch or mixmatch."),
    ("train --method own.py", 2,
     "--method own.py is not a method. Perhaps you meant own.py:CLASS, a class in that file."),
    ("train --method none.py:X", 2, "--method none.py:X: file none.py not found."),
    ("train --method own.py:Nothing", 2,
     "--method own.py:Nothing: own.py has no class Nothing derived from tamatch.Method."),
    ("train --method python:X", 2,
     "the method python:X was passed as a Python class, which is not available here. Pass the "
     "class again, or use --method FILE.py:CLASS."),
    ("resume runs/half --method own.py:X", 2,
     "--method works only for runs with your own method; this one uses tamatch."),
    ("train --method mean_teacher --ema 0", 2,
     "--ema 0 leaves Mean Teacher without its teacher: try --ema 0.999."),
    ("train --net wrn_28", 2,
     "--net wrn_28 is not a net. Perhaps you meant wrn_28_8 or wrn_28_2 or wrn_10_2. `tamatch "
     "nets` lists them."),
    ("train --net nothing", 2, "--net nothing is not a net. `tamatch nets` lists them."),
    ("train --net WRN-28-2 --print-config", 2,
     "--net WRN-28-2 is not a net. Perhaps you meant wrn_28_2. `tamatch nets` lists them."),
    ("train --net own.py", 2,
     "--net own.py is not a net. Perhaps you meant own.py:NAME, a class or function in that file. "
     "`tamatch nets` lists them."),
    ("train --net none.py:X", 2, "--net none.py:X: file none.py not found."),
    ("train --net own.py:X", 2, "--net own.py:X: own.py has no class or function X."),
    ("train --net own.py:Nothing", 2,
     "--net own.py:Nothing has no argument for the number of classes: it must be the first "
     "argument, or be named classes or num_classes."),
    ("train --net python:X", 2,
     "the net python:X was passed as a Python object, which is not available here. Pass it "
     "again: tamatch.resume(RUN, net=…), or --net FILE.py:NAME with the class or function that "
     "makes it."),
    ("resume runs/photos --net own.py:Nothing", 2,
     "--net works only for runs with your own net; this one uses wrn_10_1_clean."),
    ("predict runs/photos photos --net own.py:Nothing", 2,
     "--net works only for models with your own net; runs/photos/model uses wrn_10_1_clean."),
    ("train --net wrn_11_2", 2,
     "wrn_11_2 does not exist: the depth of a wide residual net is 10, 16, 22, 28, … up to 1000 "
     "(three stages of equal length), its width 1 to 64."),
    ("train --net vit_small_p5_32 --data photos --size 32 --steps 2", 2,
     "vit_small_p5_32 splits images into patches of 5 × 5 pixels, which do not divide 32 × 32 "
     "evenly. Choose an image size that is a multiple of 5."),
    ("train --net timm/resnet18", 2,
     "timm/resnet18 needs the timm package, which cannot be imported (<any>). Run `pip install "
     "timm`, or choose a net that `tamatch nets` lists."),
    ("train --device gpu9", 2, "--device takes auto, cpu, cuda or cuda:N; got 'gpu9'."),
    ("train --device meta", 2, "--device takes auto, cpu, cuda or cuda:N; got 'meta'."),
    ("train --device cuda", 2, "--device cuda: torch <any> finds no usable GPU."),
    ("train --time 20", 2, "--time takes a duration such as 90s, 20m, 2h or 1h30m, got '20'."),
    ("train --time 5m --steps 10", 2,
     "--steps and --time both set the length of a run: give only one."),
    ("train --time 11s", 2,
     "--time 11s is too short for this run on this machine: <any> steps fit, but at least 50 "
     "are needed. Give <any> or more."),
    ("train --config none.yaml", 2,
     "--config none.yaml cannot be read: No such file or directory."),
    ("train --config broken.yaml", 2,
     "--config broken.yaml is not valid YAML (line 1): expected ',' or ']', but got "
     "'<stream end>'."),
    ("train --config list.yaml", 2,
     "--config list.yaml must contain lines of the form `option: value`."),
    ("train --config runs/photos/run.json", 2,
     "--config runs/photos/run.json is a run record, not an option file: it has the options of "
     "the run under `config` and the command that repeats it under `command`. --print-config "
     "prints an option file."),
    ("train --config unknown.yaml", 2,
     "--config unknown.yaml: --stpes is not an option. Perhaps you meant --steps (training "
     "steps)."),
    ("train --config place.yaml", 2,
     "--config place.yaml: --out is not a setting of the run, so no file can contain it. Give it "
     "with the command."),
    ("train --steps 1e30", 2,
     "--steps takes a whole number up to 9,007,199,254,740,992, got 1e30."),
    ("train --threads 1e30", 2, "--threads must lie in [1, 4096], got 1e30."),
    ("train --method comatch --queue 9e15 --out runs/new", 2,
     "out of memory: comatch needs more with these options; use smaller ones, or a smaller "
     "--batch."),
    ("train --batch 10000000000000 --out runs/new", 2,
     "out of memory: use a smaller --batch and --unlabelled."),
    ("train --target uniformly", 2,
     "--target takes uniform, labelled, adaptive, prior; got 'uniformly'. Perhaps you meant "
     "uniform."),
    ("train --target missing.yaml", 2,
     "--target missing.yaml cannot be read: No such file or directory."),
    ("train --target negative.yaml", 2,
     "--target negative.yaml: class shares must be non-negative and not all zero."),
    ("train --target words.yaml", 2,
     "--target words.yaml must contain one number per class, as a list or as `class: share` "
     "lines."),
    ("train --target three.yaml", 2,
     "--prior or --target gives 3 class shares, but digits has 10 classes."),
    ("train --target prior", 2,
     "--target prior needs --prior: the comma-separated class shares of the pool."),
    ("train --labels-per-class 5000", 3,
     "class \"0\" has 128 labelled images in digits, but 5000 are requested. Request fewer, or "
     "label more."),
    ("train --labels-per-class 2 --head-labelled 10", 2,
     "--labels-per-class and --head-labelled cannot be used together."),
    ("train --gamma 10", 2, "--gamma needs --head-labelled, the size of the largest class."),
    ("train --gamma-unlabelled 10", 2, "--gamma-unlabelled needs --head-unlabelled."),
    ("train --data photos --steps 2 --head-labelled 2 --gamma 0.5", 2,
     "--gamma must be 1 or more, or -1 or less, got 0.5."),
    ("train --data photos --steps 2 --head-labelled 2 --gamma 10", 3,
     "--gamma 10 with 2 images in the largest class leaves none for class \"dog\". Use more "
     "images, or a smaller imbalance."),
    ("train --data photos --steps 2 --head-unlabelled 2", 3,
     "--head-unlabelled needs a label for every image of the pool, but photos has unlabelled "
     "images. Leave the option out."),
    ("train --data photos --steps 2 --labels-per-class 9", 3,
     "class \"cat\" has 3 labelled images in photos, but 9 are requested. Request fewer, or "
     "label more."),
    ("train --data photos --steps 2 --validation-per-class 2", 3,
     "class \"dog\" has 2 labelled images: --validation-per-class 2 would leave none for "
     "training. Request fewer, label more, or use --fold 1/5: it holds out a fifth of each class, "
     "but never its only image."),
    ("train --fold 3", 2, "--fold takes K/N, such as 1/5 for the first of five parts; got 3."),
    ("train --fold 3/2", 2, "--fold takes K/N with 1 ≤ K ≤ N and N ≥ 2, got 3/2."),
    ("train --weights missing.safetensors", 2,
     "weight file missing.safetensors not found."),
    ("train --weights notes.txt", 2,
     "notes.txt: unsupported weight file. Supported: .safetensors, .npz, .pth, .pt."),
    ("train --weights broken.safetensors", 2,
     "broken.safetensors cannot be read as weights (<any>). The file must be complete and "
     "contain only tensors: download it again, or save it again as safetensors."),
    ("train --data photos --weights other.safetensors", 2,
     "other.safetensors: the weights match no built-in net: 1 tensor (other 3). Specify the "
     "net: --net NAME (`tamatch nets` lists them; timm/NAME is any net of the timm package), or "
     "--net FILE.py:NAME for your own."),
    ("train --from nowhere", 2,
     "--from nowhere is not a folder. Give a run folder, such as runs/demo."),
    ("train --from runs/photos --weights other.safetensors", 2,
     "--from and --weights both set the initial weights: give only one."),
    ("train --from runs/photos --data others", 3,
     "--from runs/photos: that run has the classes cat, dog; others has fox, owl. Train "
     "without --from."),
    ("train --from runs/photos --net wrn_16_1", 2,
     "--from runs/photos: its net is wrn_10_1_clean at 8 pixels, which does not match wrn_16_1 "
     "at 8. Leave out --net and --size."),
    ("train --from runs/no-model", 2,
     "runs/no-model/model contains no model yet. If the run is unfinished, `tamatch resume` "
     "continues it."),
    ("train --labels nothing.csv --data photos --steps 2", 3, "nothing.csv does not exist."),
    ("train --labels photos --data photos --steps 2", 3,
     "photos cannot be read as CSV: Is a directory."),
    ("train --labels twice.csv", 2,
     "--labels adds labels to your own images, but digits is already fully labelled. Give the "
     "folder of your images: --data DIR."),
    ("train --labels twice.csv --labels-per-class 2 --data photos", 2,
     "--labels adds labels and --labels-per-class hides some: give only one."),
    ("train --from runs/photos --out runs/photos --overwrite", 2,
     "--out runs/photos holds the run to start from (--from runs/photos). Choose a different "
     "--out, or give none."),
    ("train --data photos --out photos/run", 2,
     "--out photos/run is inside the image folder, where every folder is a class. Choose a "
     "folder elsewhere, such as --out runs/run."),
    ("train --data . --seeds 0,1", 2,
     "--out runs/<any>-tamatch-s0 is inside the image folder, where every folder is a class. "
     "Choose a folder elsewhere, such as --out ../runs/<any>-tamatch-s0."),
    ("train --out taken-file", 2, "--out taken-file is a file; give a folder."),
    ("train --out taken-folder", 2,
     "--out taken-folder is not empty and is not a run folder. Choose a different --out."),
    ("train --out taken-file/run", 2,
     "--out taken-file/run cannot be created: Not a directory. Choose a different --out."),
    ("train --out runs/digits", 2,
     "runs/digits already contains a finished run. Choose a different --out, or use --overwrite "
     "to delete it."),
    ("train --out runs/no-baseline", 2,
     "runs/no-baseline contains a run whose baseline is unfinished: `tamatch resume "
     "runs/no-baseline` continues it, --overwrite deletes it."),
    ("train --out runs/half", 2,
     "runs/half contains an unfinished run (step 1 of 2): `tamatch resume runs/half` continues "
     "it, --overwrite deletes it."),
    ("train --data ''", 2, "--data needs a value."),
    ("train --data photos/cat/0.png", 2,
     "--data photos/cat/0.png is a single image. Give the folder that contains the class folders."),
    ("train --data photos.zip", 2,
     "--data photos.zip is an archive. Unpack it and give the folder."),
    ("train --data my holiday photos --steps 2", 2,
     "a name with spaces must be quoted: 'my holiday photos'."),
    ("check my holiday photos", 2, "a name with spaces must be quoted: 'my holiday photos'."),
    ("check phtoos", 2,
     "--data phtoos is neither a known data set nor a folder. Perhaps you meant photos."),
    ("train --data digts", 2,
     "--data digts is neither a known data set nor a folder. Perhaps you meant digits."),
    ("train --data CIFAR-10", 2,
     "--data CIFAR-10 is neither a known data set nor a folder. Perhaps you meant cifar10."),
    ("train --data nowhere", 2,
     "--data nowhere is neither a known data set nor a folder. Known: digits, cifar10, "
     "cifar10-lt, cifar100, stl10, eurosat."),
    ("train --data empty", 3,
     "empty contains no images in class folders. Expected: empty/<class>/*.jpg and "
     "empty/unlabelled/*.jpg, or a labels.csv with the columns file_name,label."),
    ("train --data bad", 3,
     "no image in bad can be read. cat/a.png: not an image in the formats JPEG, PNG, WEBP, BMP, "
     "TIFF, GIF. dog/a.png: not an image in the formats JPEG, PNG, WEBP, BMP, TIFF, GIF."),
    ("train --data one-class", 3,
     "one-class has only one class, \"cat\", and at least two are needed. Add a folder for each "
     "other class."),
    ("train --data no-labels", 3,
     "no-labels has no labelled images. Label a few of each class: in one folder per class, or "
     "in a table with the columns file_name,label."),
    ("train --data lacking", 3,
     "class \"dog\" has no labelled images (cat 2, dog 0). Label at least one, or remove the "
     "class."),
    ("train --data labelled --labelled-in-pool no --steps 2 --size 8 --net wrn_10_1 --batch "
     "2 --unlabelled 2 --precision fp32", 3,
     "labelled has no unlabelled images, but tamatch needs them. Add some, include the labelled "
     "images in the pool (--labelled-in-pool yes), or use --method supervised."),
    ("train --data columns.csv", 3,
     "{shop}/columns.csv needs the columns file_name and label in its first line, found name, "
     "class."),
    ("train --data twice.csv", 3,
     "{shop}/twice.csv, lines 2 and 3: photos/cat/0.png is listed as \"cat\" and as \"dog\". Keep "
     "one of the two."),
    ("check mixed", 3,
     "{shop}/mixed has folders named like splits (test, train) next to raw. A split contains "
     "one folder per class, and may be next to class folders, or next to other splits and "
     "unlabelled only. Move or rename the other folders."),
    ("train --data astray.csv", 3,
     "no image listed in astray.csv was found. File names are relative to the folder of the "
     "table (.). cat/0.png: listed in astray.csv but not found."),
    ("train --data latin.csv", 3,
     "{shop}/latin.csv is not encoded in UTF-8. Save it as CSV in UTF-8."),
    ("train --data unlabelled.csv", 3,
     "unlabelled.csv has no labelled images. Label a few of each class: in one folder per "
     "class, or in a table with the columns file_name,label."),
    ("train --data broken.npz", 3,
     "broken.npz cannot be read: it is damaged or not an .npz file of plain arrays (<any>). "
     "Write it with `numpy.savez`."),
    ("train --data lacking.npz", 3,
     "lacking.npz needs the arrays images and labels, found images."),
    ("train --data shape.npz", 3,
     "images must be (N, H, W) or (N, H, W, 1 or 3), got (2, 8, 8, 5)."),
    ("train --data type.npz", 3, "images must be bytes (uint8) or floats in 0 … 1, got int64."),
    ("train --data range.npz", 3,
     "images are floats and must be in 0 … 1. Divide them by 255."),
    ("train --data count.npz", 3, "labels must be 2 integers, one per image; got int64 (3,)."),
    ("train --data minus.npz", 3, "labels must be 0 or more, or -1 for unlabelled images."),
    ("train --data test.npz", 3,
     "test_images are 9 × 9, but images are 8 × 8. They must have the same size."),
    ("train --data half.npz", 3,
     "test_images are given without test_labels: give both, or neither."),
    ("train --data stl10 --root nowhere", 3,
     "stl10 not found in {shop}/nowhere (looked for stl10_binary, stl10_binary.tar.gz). "
     "Download http://ai.stanford.edu/~acoates/stl10/stl10_binary.tar.gz (MD5 "
     "91f7769df0f17e558f3565bffb0c7dfb) to {shop}/nowhere, or run `tamatch check stl10 --root "
     "{shop}/nowhere --download`."),
    ("check digits --download", 2,
     "--download supports only cifar10, cifar10-lt, cifar100, stl10, eurosat; got digits."),
    ("check one-class", 3,
     "one-class has only one class, \"cat\", and at least two are needed. Add a folder for each "
     "other class."),
    ("check runs/photos", 2,
     "--data runs/photos is a run folder, not an image folder. `tamatch report runs/photos` "
     "shows its results, `tamatch resume runs/photos` continues it."),
    ("train --data seeds", 2,
     "--data seeds is a run folder, not an image folder. `tamatch report seeds` shows its "
     "results, `tamatch resume seeds` continues it."),
    ("check too-high", 3,
     "too-high has only one class, \"inner\", and at least two are needed. Perhaps you meant "
     "too-high/inner/photos, which has the classes cat, dog."),
    ("train --data too-high/inner --steps 2", 3,
     "inner has only one class, \"photos\", and at least two are needed. Perhaps you meant "
     "too-high/inner/photos, which has the classes cat, dog."),
    ("train --data scattered --steps 2", 3,
     "scattered has only one class, \"labelled\", and at least two are needed. Perhaps the "
     "classes are cat, dog: move these folders from scattered/labelled to scattered, next to "
     "unlabelled."),
    ("check photos/cat", 3,
     "photos/cat contains images, but no class folders. Create one folder per class with a few "
     "of its images, and move all others to photos/cat/unlabelled; or write a labels.csv with "
     "the columns file_name,label. Perhaps you meant photos, where cat is one of several "
     "folders."),
    ("check runs", 2,
     "--data runs contains the run runs/bad-model, but every folder in it must be a class. Give "
     "a folder that contains only images, or move the run elsewhere."),
    ("check nowhere", 2,
     "--data nowhere is neither a known data set nor a folder. Known: digits, cifar10, "
     "cifar10-lt, cifar100, stl10, eurosat."),
    ("resume nowhere", 2, "nowhere is not a folder. Give a run folder, such as runs/demo."),
    ("resume runs/foto", 2, "runs/foto is not a folder. Perhaps you meant runs/photos."),
    ("resume photos", 2,
     "photos is not a run folder: it contains no run.json. Give the --out folder of a run."),
    ("resume runs/no-json", 3,
     "runs/no-json/run.json is damaged: it is not valid JSON. Restore it, or train again."),
    ("resume runs/no-run", 3,
     "runs/no-run/run.json is not the record of a tamatch run. Restore it, or train again."),
    ("resume runs/other-settings", 2,
     "the settings in run.json differ from those of the checkpoint: lr was 0.03, now it is 0.5. "
     "Change them back, or start a new run with a different --out."),
    ("evaluate runs/photos", 3,
     "photos has no labelled test images. Give labelled images with --data."),
    ("evaluate runs/photos --data others", 3,
     "others has the classes fox, owl, which are not among the classes of the model (cat, dog). "
     "Rename or remove them."),
    ("evaluate runs/photos --data too-high/inner", 3,
     "inner has the classes photos, which are not among the classes of the model (cat, dog). "
     "Perhaps you meant too-high/inner/photos, which has the classes cat, dog."),
    ("evaluate runs/moved", 2,
     "runs/moved was trained on {shop}/gone, which no longer exists. Restore it; if the images "
     "have moved, give their new folder as --data."),
    ("evaluate runs/no-table", 2,
     "runs/no-table was trained with the labels in {shop}/gone.csv, which no longer exists. "
     "Restore it; runs/no-table/split.csv lists these labels."),
    ("evaluate runs/no-model", 2,
     "runs/no-model/model contains no model yet. If the run is unfinished, `tamatch resume` "
     "continues it."),
    ("evaluate photos", 2,
     "photos is neither a run folder nor a model folder. Give the --out folder of a run."),
    ("evaluate seeds", 2,
     "seeds contains several runs, one per seed. Give one of them, such as seeds/s0."),
    ("evaluate one-seed", 2,
     "one-seed contains several runs, one per seed. Give one of them, such as one-seed/s3."),
    ("evaluate nowhere", 2, "nowhere is not a folder. Give a run folder, such as runs/demo."),
    ("predict runs/bad-model photos", 3,
     "the model in runs/bad-model/model is damaged (<any>). Copy it again, or train again."),
    ("predict runs/photos nowhere.png", 2,
     "nowhere.png does not exist. Give image files, folders, or - for stdin."),
    ("predict photos runs/photos", 2,
     "runs/photos is a run, not an image. Give the run first, then the images."),
    ("predict runs/photos images", 3, "1 of 1 images could not be read; see above."),
    ("predict runs/photos empty", 3, "no images found in empty."),
    ("predict runs/photos photos --top 0", 2, "--top must be at least 1, got 0."),
    ("predict runs/photos photos --out taken-file", 2,
     "taken-file already exists. Choose a different name, or use --overwrite to replace a file."),
    ("predict runs/photos photos --out photos", 2,
     "photos is a folder. Choose a different name, or use --overwrite to replace a file."),
    ("predict runs/photos photos --out taken-file/x.csv", 3,
     "taken-file/x.csv cannot be written: Not a directory."),
    ("label runs/photos --out taken-file/x.csv", 3,
     "taken-file/x.csv cannot be written: Not a directory."),
    ("predict runs/photos photos -0", 2,
     "-0 applies only to file names read from stdin: give - instead of the images."),
    ("label runs/photos --out pool.csv", 2,
     "pool.csv already exists. Choose a different --out, or use --overwrite."),
    ("label runs/photos --out taken-file --overwrite", 2,
     "taken-file already exists and was not written by `tamatch label`. Choose a different --out."),
    ("label runs/photos --out taken-folder --overwrite", 2,
     "--out taken-folder is a folder; give a file."),
    ("label runs/photos --out l.csv --precision 0.9", 3,
     "--precision 0.9 needs at least 44 validation images, even if the model classifies all of "
     "them correctly; runs/photos has none. Label more images (`tamatch review`), or set the "
     "confidence threshold yourself: --min-confidence."),
    ("label runs/photos --out l.csv --precision 2", 2, "--precision must lie in (0, 1), got 2."),
    ("label runs/photos --out l.csv --folds 3", 2,
     "--folds needs --precision: it sets how the confidence threshold is chosen."),
    ("label runs/photos --out l.csv --folds 1 --precision 0.9", 2,
     "--folds must be at least 2, got 1."),
    ("label runs/photos --out l.csv --folds 3 --precision 0.9", 3,
     "--precision 0.9 needs at least 44 labelled images to hold out, even if the models "
     "classify all of them correctly; the run has 5. Label more images, lower --precision, or "
     "set the confidence threshold yourself: --min-confidence."),
    ("label runs/changed --out l.csv", 3,
     "changing no longer has the classes that the model was trained on. Restore them, or train "
     "again."),
    ("review runs/changed", 3,
     "changing no longer has the classes that the model was trained on. Restore them, or train "
     "again."),
    ("export runs/photos --format onnx --out model.txt", 2, "--out model.txt must end in .onnx."),
    ("export runs/photos --format safetensors --out taken-file", 2,
     "--out taken-file is a file; give a folder."),
    ("export runs/photos --format safetensors --out taken-folder", 2,
     "taken-folder already exists. Choose a different --out, or use --overwrite."),
    ("report runs/photos --out .", 2, "--out . is a folder; give a file."),
    ("report nowhere", 2, "nowhere is not a folder. Give a run folder, such as runs/demo."),
    ("report photos", 2,
     "photos is not a run folder: it contains none of run.json, result.json, metrics.jsonl. "
     "Give the --out folder of a run."),
    *(
        (f"{command} runs{rest}", 2,
         f"runs is {what}. Give one of the runs in it, such as runs/bad-model.")
        for command, rest, what in (
            ("resume", "", "not a run folder: it contains no run.json"),
            ("label", " --out l.csv", "not a run folder: it contains no run.json"),
            ("export", " --format pt2", "not a run folder: it contains no run.json"),
            ("review", "", "not a run folder: it contains no run.json"),
            ("report", "",
             "not a run folder: it contains none of run.json, result.json, metrics.jsonl"),
            ("evaluate", "", "neither a run folder nor a model folder"),
            ("predict", " photos", "neither a run folder nor a model folder"),
        )
    ),
    ("train --from runs", 2,
     "--from runs is not a run folder: it contains no run.json. Give one of the runs in it, such "
     "as runs/bad-model."),
    ("review runs/digits", 2,
     "digits is already fully labelled: `tamatch review` is for your own images."),
    ("review runs/labelled", 3,
     "all training images of runs/labelled are already labelled: there are none to review. Put "
     "unlabelled images into labelled/unlabelled."),
    ("review runs/photos --port 99999", 2, "--port must lie in 0 … 65535, got 99999."),
    ("bench nothing", 2, "bench nothing is unknown. Available: usb, <any>."),
    ("bench digits --methods FixMatch", 2,
     "--methods FixMatch is unknown. Perhaps you meant fixmatch."),
    ("bench digits --methods fixmach", 2,
     "--methods fixmach is unknown. Perhaps you meant fixmatch or defixmatch or mixmatch."),
    ("bench digits --methods fixmatch,mine.py", 2,
     "--method mine.py is not a method. Perhaps you meant mine.py:CLASS, a class in that file."),
    ("bench digits --methods fixmatch,gone.py:Mine --list", 2,
     "--method gone.py:Mine: file gone.py not found."),
    ("bench bias --methods mine.py:Mine", 2,
     "--methods mine.py:Mine is unknown. Available: fixmatch, tamatch."),
    ("bench digits --seeds 0 1 --show", 2, "--seeds takes comma-separated values: --seeds 0,1."),
    ("bench digits --methods fixmatch tamatch", 2,
     "--methods takes comma-separated values: --methods fixmatch,tamatch."),
    ("bench digits now", 2,
     "now is not an option. See `tamatch bench digits --help`."),
    ("bench digits --seeds a", 2,
     "--seeds takes comma-separated whole numbers, such as 0,1,2; got 'a'."),
    ("bench digits --seeds 0,1,0", 2, "--seeds lists 0 twice."),
    ("bench digits --abreast 0", 2, "--abreast must be at least 1, got 0."),
    ("bench digits --minutes -1", 2, "--minutes must be above 0, got -1."),
    ("bench digits --minutes nan", 2, "--minutes must be above 0, got nan."),
    ("bench rank --of lt,usb", 2, "--of takes one name, got 'lt,usb'."),
    ("bench bias --data digits,stl10", 2, "--data takes one name, got 'digits,stl10'."),
    ("bench digits --cell 3/2", 2, "--cell takes K/N with K from 1 to N, got '3/2'."),
    ("bench digits --scale x", 2, "--scale takes a fraction such as 1/8, got 'x'."),
    ("bench digits --scale 2", 2,
     "--scale 2 is out of range: it must be above 0 and at most the full length of a run."),
    ("bench digits --scale 1/2 --steps 3", 2,
     "--scale and --steps both set the length of a run: give only one."),
    ("bench speed --steps 0", 2, "--steps must be at least 1, got 0."),
    ("bench toy --trajectories 1000000000", 2,
     "--trajectories must lie in [1, 1000000], got 1000000000."),
    ("bench toy --steps 0", 2, "--steps must be at least 1, got 0."),
    ("bench toy --seed -1", 2, "--seed must be at least 0, got -1."),
    ("bench speed --works nothing", 2, "--works nothing is unknown. Available: <any>."),
    ("bench speed --reference .", 2,
     "--reference <any>: train.py not found. Give a checkout of the reference benchmark "
     "(github.com/microsoft/Semi-supervised-learning)."),
    ("bench augment --sizes 4", 2,
     "--sizes takes comma-separated whole numbers of at least 8; got '4'."),
]  # fmt: skip


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Everything that the rows name, in one folder."""
    folder = tmp_path_factory.mktemp("shop")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        furnish(folder)
    return folder


def pattern(message: str, shop: Path) -> str:
    parts = message.replace("{shop}", str(shop)).split(ANY)
    return ".+".join(map(re.escape, parts))


@pytest.mark.parametrize(("words", "code", "message"), COMMANDS, ids=[row[0] for row in COMMANDS])
def test_a_mistake_is_told_in_one_line(
    words: str, code: int, message: str, shop: Path,
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(shop)
    assert main(shlex.split(words)) == code
    told = capsys.readouterr().err.splitlines()
    assert re.fullmatch("tamatch: " + pattern(message, shop), told[-1])
    assert not any("Traceback" in line for line in told)


def one_gpu(name: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(launch, "processes", lambda: 2)
        patch.setattr(launch, "local_processes", lambda: 2)
        patch.setattr(torch.cuda, "device_count", lambda: 1)
        hardware.own_gpu(torch.device(name))


def two_gpus(name: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.cuda, "is_available", lambda: True)
        patch.setattr(torch.cuda, "device_count", lambda: 2)
        assert hardware.pick_device("cuda:1").index == 1
        hardware.pick_device(name)


def with_torchrun(call: Callable[[], object]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(launch, "processes", lambda: 2)
        call()


def image(*shape: int, kind: Any = np.uint8) -> np.ndarray:
    return np.full(shape, 2, kind)


def predict(images: Any) -> Callable[[], object]:
    return lambda: tamatch.load("runs/photos").predict(images)


CALLS: list[tuple[Callable[[], object], str]] = [
    (lambda: tamatch.train(data=image(2, 8, 8)),
     "data takes a name or a path. Pass arrays to TaMatchClassifier().fit(X, y), or save them "
     "as an .npz file with `images` and `labels`."),
    (lambda: tamatch.train(method=Path),
     "method takes a name, FILE.py:CLASS, or a subclass of tamatch.Method; got Path."),
    (lambda: tamatch.resume("runs/half", method=tamatch.Method),
     "--method works only for runs with your own method; this one uses tamatch."),
    (lambda: tamatch.train(out=5),  # type: ignore[arg-type]
     "out takes a run folder, as a str or Path; got int."),
    (lambda: tamatch.train(out=""), "out takes a run folder, as a str or Path; got ''."),
    (lambda: tamatch.train(out="runs/digits", overwrite="no"),  # type: ignore[arg-type]
     "overwrite takes True or False, got 'no'."),
    (lambda: tamatch.train(config={}),  # type: ignore[arg-type]
     "config takes a YAML file. Pass options in a dict as keywords: train(**options)."),
    (lambda: tamatch.train(config=["a.yaml"]),  # type: ignore[arg-type]
     "config takes a YAML file, as a str or Path; got list."),
    (lambda: tamatch.train_seeds(3),  # type: ignore[arg-type]
     "seeds takes a list of whole numbers, such as [0, 1, 2]; got 3. For one seed, use "
     "train(seed=0)."),
    (lambda: tamatch.train_seeds([0], out=5),  # type: ignore[arg-type]
     "out takes a folder, as a str or Path; got int."),
    (lambda: tamatch.resume(None),  # type: ignore[arg-type]
     "resume takes a run folder, as a str or Path; got None."),
    (lambda: tamatch.resume_seeds(["runs/half"]),  # type: ignore[arg-type]
     "resume_seeds takes each run folder as a separate argument, as a str or Path; got list."),
    (lambda: tamatch.load(None),  # type: ignore[arg-type]
     "load takes a run or model folder, as a str or Path; got None."),
    (lambda: tamatch.load(tamatch.resume("runs/photos", quiet=True)),  # type: ignore[arg-type]
     "load takes a run or model folder, as a str or Path; got Finished. Perhaps you "
     "meant its path."),
    (lambda: tamatch.data.load(5),  # type: ignore[arg-type]
     "data takes a name, a folder or a file, as a str or Path; got int."),
    (lambda: export.export(None, "onnx"),  # type: ignore[arg-type]
     "export takes a run folder, as a str or Path; got None."),
    (lambda: label("runs/photos", None),  # type: ignore[arg-type]
     "out takes a CSV file to write, as a str or Path; got None."),
    (lambda: tamatch.train(time=20),  # type: ignore[arg-type]
     "--time takes a duration such as 90s, 20m, 2h or 1h30m, got 20."),
    (lambda: tamatch.train(graph="maybe"), "--graph takes yes or no, got 'maybe'."),
    (predict(7),
     "a model takes file names, Pillow images, and arrays or tensors of pixels, or a list of them; "
     "got int."),
    (predict([None]),
     "a model takes file names, Pillow images, and arrays or tensors of pixels; got NoneType."),
    (predict(torch.zeros(8, 8, 3)),
     "a tensor to predict must be (1, H, W), (3, H, W) or (4, H, W), or a batch of these; got "
     "(8, 8, 3)."),
    (predict(image(2, 4, 4, 5)),
     "an array to predict must be (H, W), (H, W, 1), (H, W, 3) or (H, W, 4), or a batch of "
     "these; got (4, 4, 5)."),
    (predict(image(4, 4, 3, kind=np.int64)),
     "an array to predict must be bytes (uint8), or floats in 0 … 1; got int64."),
    (predict("images/broken.png"),
     "images/broken.png cannot be read: not an image in the formats JPEG, PNG, WEBP, BMP, TIFF, "
     "GIF."),
    (lambda: export.export("runs/photos", "tflite"),  # type: ignore[arg-type]
     "--format takes onnx, pt2, safetensors; got 'tflite'."),
    (lambda: export.export("runs/photos", "ONNX"),
     "--format takes onnx, pt2, safetensors; got 'ONNX'. Perhaps you meant onnx."),
    (lambda: RunFolder(Path("runs/half")).cut_metrics(10**6),
     "runs/half/metrics.jsonl is shorter than its checkpoint says: lines are missing. Restore "
     "the file, or restart the run."),
    (lambda: list_images(Path("gone")),
     "the folder gone cannot be read: No such file or directory."),
    (lambda: tamatch.SSLClassifier(lr=1e39, steps=5).fit(np.eye(8), np.arange(8) % 2),
     "<any> steps gave non-finite values near step <any>. The learning rate "
     "is probably too high: try a smaller lr."),
    (lambda: with_torchrun(lambda: tamatch.train_seeds([0, 1])),
     "several seeds are trained in one process. Start them without torchrun, or run torchrun "
     "once per seed (--seed)."),
    (lambda: two_gpus("cuda:2"), "--device cuda:2: this machine has 2 GPUs, numbered from cuda:0."),
    (lambda: one_gpu("cuda:0"),
     "--device cuda:0 is one GPU, but each process needs its own: use --device cuda."),
    (lambda: one_gpu("cuda"),
     "2 processes need 2 GPUs, but this machine has 1: use torchrun --nproc-per-node gpu, or "
     "--device cpu."),
]  # fmt: skip


@pytest.mark.parametrize(("call", "message"), CALLS, ids=[row[1][:40] for row in CALLS])
def test_a_wrong_call_is_told_too(
    call: Callable[[], object], message: str, shop: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(shop)
    with pytest.raises(TamatchError, match=f"^{pattern(message, shop)}$"):
        call()


ELSEWHERE = {  # a part of the message, with a hole for each value; the test
    "augmentation: size must": "augment/test_views.py::test_a_wrong_policy_says_what_is_right",
    "augmentation: pad ": "augment/test_views.py::test_a_wrong_policy_says_what_is_right",
    "augmentation: mean and std": "augment/test_views.py::test_a_wrong_policy_says_what_is_right",
    "augmentation: unknown operation": (
        "augment/test_views.py::test_a_wrong_policy_says_what_is_right"
    ),
    "augmentation: cannot draw": "augment/test_views.py::test_a_wrong_policy_says_what_is_right",
    "augmentation: cutout": "augment/test_views.py::test_a_wrong_policy_says_what_is_right",
    "augmentation: unknown view": "augment/test_views.py::test_a_wrong_call_says_what_is_right",
    "augmentation: expected": "augment/test_views.py::test_a_wrong_call_says_what_is_right",
    "augmentation: images of": "augment/test_views.py::test_a_wrong_call_says_what_is_right",
    ", which is not found from here. Resume it": (
        "faults/test_conditions.py::test_data_that_are_not_found_from_here_are_named"
    ),
    ", which no longer exists. Restore it.": (
        "faults/test_conditions.py::test_data_that_are_not_found_from_here_are_named"
    ),
    "figures need matplotlib": "bench/test_commands.py::test_without_matplotlib",
    "was started with different settings": (
        "bench/test_runner.py::test_a_run_begun_with_other_settings_is_refused"
    ),
    "was started from": "bench/test_runner.py::test_a_run_begun_from_other_weights_is_refused",
    "but this command starts from \0. Use different --results": (
        "bench/test_commands.py::test_results_from_other_weights_are_refused"
    ),
    "a table cannot mix them": "bench/test_tables.py::test_no_table_mixes_starts",
    "was written by a newer version": (
        "bench/test_store.py::test_a_newer_file_is_not_called_damaged"
    ),
    "contains the result of another run": (
        "bench/test_store.py::test_a_renamed_or_damaged_file_is_refused"
    ),
    "Delete it to repeat the run": (
        "bench/test_store.py::test_a_renamed_or_damaged_file_is_refused"
    ),
    "is not the published file": (
        "data/test_cifar.py::test_a_changed_byte_names_the_file_both_sums_and_the_address"
    ),
    "is not a CIFAR batch": "data/test_cifar.py::test_a_doctored_pickle_runs_nothing",
    " is missing. ": "data/test_cifar.py::test_a_missing_file_is_named",
    " is incomplete: ": "data/test_cifar.py::test_a_missing_file_is_named",
    "images of each of": (
        "data/test_cifar.py::test_unpacked_binary_files_are_checked_by_their_content"
    ),
    "ended with exit code": "bench/test_reference.py::test_a_program_that_fails_is_quoted",
    "is truncated": "data/test_cifar.py::test_unpacked_binary_files_are_checked_by_their_content",
    "the image cache": "data/test_data_cache.py::test_a_full_disk_is_one_sentence",
    "the file downloaded from": (
        "data/test_data_download.py::test_nothing_is_left_of_a_bad_download"
    ),
    "cannot be downloaded": (
        "data/test_data_download.py::test_offline_says_address_and_folder_at_once"
    ),
    "cannot be read: \0. Unpack it again.": (
        "data/test_eurosat.py::test_a_broken_image_is_an_error_here"
    ),
    "is not the published data: \0 images of \0, expected": (
        "data/test_eurosat.py::test_a_missing_image_is_noticed"
    ),
    ", line \0: ": "data/test_labels.py::test_mistakes_are_told_with_their_line",
    ", lines \0 and ": "data/test_labels.py::test_mistakes_are_told_with_their_line",
    "--labels adds labels to your": (
        "data/test_labels.py::test_sets_with_all_their_labels_take_no_others"
    ),
    "is in the data folder": "data/test_labels.py::test_the_table_must_be_there_and_elsewhere",
    "which is no longer in": ("data/test_splitfile.py::test_a_changed_or_missing_image_is_refused"),
    "has changed since": "data/test_splitfile.py::test_a_changed_or_missing_image_is_refused",
    "is not a table of a run": "data/test_splitfile.py::test_what_is_no_split_file",
    "--seed must lie in 0": "data/test_splits.py::test_plans_that_make_no_sense",
    "labelled images can be held out, as": (
        "data/test_splits.py::test_what_was_learnt_before_never_validates"
    ),
    " was trained from ": (
        "runs/test_go_on.py::test_folds_of_a_run_that_goes_on_begin_as_the_first_one_did"
    ),
    "--fold would hold out": "runs/test_go_on.py::test_contradictions_are_refused",
    "STL-10's publisher": (
        "data/test_stl10.py::test_a_short_file_is_noticed_even_under_its_checksum"
    ),
    "processes cannot share": "dist/test_launch.py::test_a_batch_that_cannot_be_shared",
    "torchrun works only": "dist/test_launch.py::test_one_process_of_a_machine_speaks",
    "normalise the images of each process": (
        "dist/test_norm.py::test_layers_of_other_nets_become_ours"
    ),
    "than in process 0": "dist/test_runs.py::test_two_processes_make_the_run_of_one",
    "do not match this version": (
        "faults/test_conditions.py::test_a_checkpoint_of_another_kind_is_refused"
    ),
    "cannot resume \0: \0": "faults/test_conditions.py::test_changed_data_are_refused",
    "When there is space again": "faults/test_disk.py::test_no_room_for_a_file",
    "loss part ": "faults/test_numbers.py",
    "forward must return": "runs/test_dry_run.py::test_a_mistake_is_told_in_one_line",
    "must be a tensor with one number": "runs/test_dry_run.py::test_a_mistake_is_told_in_one_line",
    "of its loss has no gradient": "runs/test_dry_run.py::test_a_mistake_is_told_in_one_line",
    "of its loss must be a tensor": "runs/test_dry_run.py::test_a_mistake_is_told_in_one_line",
    "cannot be the name of a part": "runs/test_dry_run.py::test_a_mistake_is_told_in_one_line",
    "of its loss is not finite in": "runs/test_dry_run.py::test_a_mistake_is_told_in_one_line",
    "must be a tuple, with a comma": "runs/test_dry_run.py::test_a_mistake_is_told_in_one_line",
    "views must be": "runs/test_dry_run.py::test_a_mistake_is_told_in_one_line",
    "has no shape before": "runs/test_dry_run.py::test_a_mistake_is_told_in_one_line",
    "is replaced in a step": "runs/test_dry_run.py::test_a_mistake_is_told_in_one_line",
    " changes in a step": "runs/test_dry_run.py::test_a_mistake_is_told_in_one_line",
    "its __init__ must take": "runs/test_dry_run.py::test_a_mistake_is_told_in_one_line",
    "its view \0 is unknown": "runs/test_dry_run.py::test_a_mistake_is_told_in_one_line",
    "is not saved: register": "runs/test_dry_run.py::test_a_mistake_is_told_in_one_line",
    "but no checkpoint holds it": "runs/test_dry_run.py::test_a_mistake_is_told_in_one_line",
    "a step draws from": "runs/test_dry_run.py::test_a_mistake_is_told_in_one_line",
    "tried twice": "runs/test_dry_run.py::test_a_mistake_is_told_in_one_line",
    "weights that torch does not see": "runs/test_dry_run.py::test_a_mistake_is_told_in_one_line",
    "it adds \0 to the net": "runs/test_dry_run.py::test_a_mistake_is_told_in_one_line",
    "which is exported under this name": "runs/test_dry_run.py::test_a_mistake_is_told_in_one_line",
    "must be a net, not": "runs/test_dry_run.py::test_a_mistake_is_told_in_one_line",
    "does not move the averaged": "runs/test_dry_run.py::test_a_mistake_is_told_in_one_line",
    "is missing in some steps": "step/test_meter.py::test_each_step_has_the_same_parts",
    "steps gave non-finite values": "faults/test_numbers.py",
    "is not finite after step": "faults/test_numbers.py",
    "'s option \0 has the unsupported type": (
        "settings/test_config.py::test_an_option_that_would_be_misread_is_refused"
    ),
    "has an invalid default": (
        "settings/test_config.py::test_an_option_that_would_be_misread_is_refused"
    ),
    "has the name of an option of the run": (
        "settings/test_config.py::test_an_option_that_would_be_misread_is_refused"
    ),
    "\0=\0 is unknown": "methods/test_compose.py::test_a_wrong_name_is_told_with_its_near_miss",
    "resume_seeds takes one or more": "runs/test_seeds.py::test_no_run_to_resume_is_told",
    "does not describe \0": "runs/test_dry_run.py"
    "::test_a_keyword_that_says_nothing_about_itself_is_no_option",
    "cannot be captured as a CUDA graph": "step/test_engine.py"
    "::test_a_step_that_cannot_be_recorded_is_told_with_its_first_cause",
    "this run uses your own method": (
        "runs/test_handed_over.py::test_a_class_that_no_file_has_by_name_is_handed_over_again"
    ),
    "For this run: ": (
        "runs/test_handed_over.py::test_where_the_file_is_gone_the_class_can_be_given"
    ),
    "starts a run while": "runs/test_handed_over.py::test_a_file_that_starts_a_run_when_imported",
    " already exists. ": "runs/test_seeds.py::test_without_out_each_has_its_usual_folder",
    "timm \0 has no net": "nets/test_timm.py::test_what_timm_cannot_build_is_told_in_one_line",
    "\0 failed (": "nets/test_own.py::test_a_mistake_is_told_with_its_place",
    "must return an nn.Module": "nets/test_own.py::test_a_mistake_is_told_with_its_place",
    "expected logits": "nets/test_own.py::test_a_mistake_is_told_with_its_place",
    "returns probabilities": "nets/test_own.py::test_a_mistake_is_told_with_its_place",
    "nothing in it can be trained": "nets/test_own.py::test_a_mistake_is_told_with_its_place",
    "only tensors can be saved": "nets/test_own.py::test_a_mistake_is_told_with_its_place",
    "needs the gradient with": "nets/test_own.py::test_vat_wants_the_gradient_of_the_images",
    "net takes a name": "nets/test_own.py::test_modules_and_what_makes_them_can_be_handed_over",
    "--layer-decay needs": "nets/test_own.py::test_the_layers_are_as_deep_as_it_says",
    "give FILE.py:NAME": (
        "nets/test_own.py::test_what_was_handed_over_stands_in_for_the_name_of_a_run"
    ),
    "which is not saved with the model": (
        "nets/test_own_runs.py::test_commands_want_the_code_to_be_named"
    ),
    "its net is your own code": ("nets/test_own_runs.py::test_commands_want_the_code_to_be_named"),
    "the weights in \0 as it is now": (
        "nets/test_own_runs.py::test_weights_of_other_code_are_refused"
    ),
    "--head zero needs a net": (
        "runs/test_finetune.py::test_a_net_without_a_last_layer_has_none_to_set"
    ),
    "contains a transformer of width": (
        "nets/test_recognise.py::test_files_of_other_nets_say_what_was_seen"
    ),
    "but is a different net": "nets/test_recognise.py::test_files_that_nearly_fit_are_refused",
    "is for images, but X contains rows": "runs/test_finetune.py::test_rows_take_no_weights",
    "options does not take": (
        "estimators/test_estimator.py::test_options_neither_contradict_the_parameters_nor_hide_labels"
    ),
    "does not match this net": (
        "nets/test_weights.py::test_weights_of_another_net_are_refused_and_change_nothing"
    ),
    "nothing to compare": (
        "report/test_report_comparison.py::test_nothing_to_compare_is_a_usage_error"
    ),
    "Leave out --port to use a free one": "review/test_server.py",
    "is a folder; give a file": "review/test_store.py",
    "columns that would be lost": "review/test_store.py",
    "was changed by another program": "review/test_store.py",
    "is for other images": "review/test_store.py",
    "is not a saved training state": (
        "storage/test_checkpoint.py::test_a_pickle_in_a_checkpoint_runs_nothing"
    ),
    "checksum does not match": (
        "storage/test_checkpoint.py::test_every_torn_or_changed_byte_is_noticed"
    ),
    "\0 is damaged: \0.": "storage/test_checkpoint.py::test_every_torn_or_changed_byte_is_noticed",
    "needs the package": "apply/test_export.py::test_a_missing_package_is_named",
    "torch cannot export the net": (
        "apply/test_export.py::test_a_net_that_cannot_be_exported_is_named"
    ),
    "of the exported model differ": (
        "apply/test_export.py::test_a_wrong_model_is_not_written_silently"
    ),
    "even if the model classifies all": (
        "apply/test_label.py::test_a_precision_is_promised_or_refused_with_the_reason"
    ),
    "no confidence threshold guarantees": (
        "apply/test_label.py::test_the_cut_keeps_ties_and_the_largest_share_that_holds"
    ),
}


class Site(NamedTuple):
    """A place in the package that makes an error, and its message with holes."""

    file: str
    line: int
    template: str

    def makes(self, message: str) -> bool:
        parts = map(re.escape, self.template.split(HOLE))
        return re.fullmatch(".*".join(parts), message.replace(ANY, "x"), re.DOTALL) is not None


def template(node: ast.expr) -> str:
    """The constant parts of a message."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(map(template, node.values))
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return template(node.left) + template(node.right)
    return HOLE


def sites() -> list[Site]:
    found = []
    package = ROOT / "tamatch"
    for path in sorted(package.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.args:
                if node.func.id not in KINDS:
                    continue
                place = path.relative_to(package).as_posix()
                found.append(Site(place, node.lineno, template(node.args[0])))
    return found


@pytest.mark.parametrize(
    ("word", "names", "near"),
    [
        ("A-b", ["ab", "abc"], ["ab"]),  # only spelled otherwise: the one that was meant
        ("abd", ["abc", "zzz", "ab"], ["ab", "abc"]),
        ("Two_Words", ["two-words", "TWO_WORDS"], ["two-words"]),
        ("abcd", ["abc1", "abc2", "abc3", "abc4"], ["abc4", "abc3", "abc2"]),
        ("nothing", ["ab"], []),
    ],
)
def test_near_misses(word: str, names: list[str], near: list[str]) -> None:
    assert errors.nearest(word, names) == near
    told = f" Perhaps you meant {' or '.join(near)}." if near else ""
    assert errors.perhaps(word, names) == told
    assert errors.nearest(word, names, most=1) == near[:1]


def test_every_error_of_the_package_is_listed() -> None:
    messages = [row[2] for row in COMMANDS] + [row[1] for row in CALLS]
    missing = [
        f"{site.file}:{site.line} {site.template!r}"
        for site in sites()
        if not any(map(site.makes, messages))
        and not any(part in site.template for part in ELSEWHERE)
    ]
    assert not missing, "\n".join(missing)


def test_the_tests_named_exist() -> None:
    templates = [site.template for site in sites()]
    for part, test in ELSEWHERE.items():
        file, _, name = test.partition("::")
        assert f"def {name or 'test_'}" in (ROOT / "tests" / file).read_text(), test
        assert any(part in message for message in templates), part
