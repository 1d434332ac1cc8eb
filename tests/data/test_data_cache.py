"""The cache of decoded images: right, whole, rebuilt when damaged, and flat in memory."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import stat
import subprocess
import sys
import time
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from tamatch.data import bulk, cache
from tamatch.data.bulk import decode_all, fingerprint
from tamatch.data.dataset import DIGEST, digests_of
from tamatch.data.decode import decode
from tamatch.errors import DataError
from tamatch.runs.build import keep_compiled
from tests.data.memory import resident
from tests.data.pictures import put
from tests.processes import environment


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    return [put(tmp_path / "pics" / f"{i}.png", 5 * i) for i in range(20)]


def entries(folder: Path) -> list[Path]:
    return sorted(folder.iterdir())


def test_first_decoded_then_read(files: list[Path], own_cache: Path) -> None:
    seen: list[tuple[int, int]] = []
    first = decode_all(files, 16, progress=lambda done, total: seen.append((done, total)))
    assert seen[-1] == (20, 20)
    seen.clear()
    again = decode_all(files, 16, progress=lambda done, total: seen.append((done, total)))
    assert not seen and isinstance(again.images, np.memmap)
    assert (first.images == again.images).all() and (first.sizes == again.sizes).all()
    for file, image in zip(files, first.images, strict=True):
        assert (image == decode(file, 16)[0]).all()
    assert not first.images.flags.writeable
    assert len(entries(own_cache)) == 1


def test_many_files_use_worker_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = [put(tmp_path / f"{i}.jpg", i % 256, (10 + i % 7, 9)) for i in range(300)]
    files[77].write_bytes(b"broken")
    files[299].write_bytes(b"")
    monkeypatch.setattr(bulk, "cores", lambda: 2)
    used: list[int] = []
    start = bulk.ProcessPoolExecutor

    def counted(workers: int, **options: object) -> object:
        used.append(workers)
        return start(workers, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(bulk, "ProcessPoolExecutor", counted)
    found = decode_all(files, 8)
    assert used == [2]
    assert [i for i, _ in found.unreadable] == [77, 299]
    assert found.kept.tolist() == [i for i in range(300) if i not in (77, 299)]
    assert found.sizes[:3].tolist() == [[10, 9], [11, 9], [12, 9]]
    for i, image in zip(found.kept, found.images, strict=True):
        assert (image == decode(files[i], 8)[0]).all()


def test_a_script_without_a_main_guard_runs_once(tmp_path: Path) -> None:
    """Worker processes do not run it again."""
    for i in range(bulk.IN_PROCESS):
        put(tmp_path / "pics" / "a" / f"{i}.png", i)
    script = tmp_path / "script.py"
    script.write_text(
        "from tamatch.data import bulk, load\n"
        "bulk.cores = lambda: 2\n"
        f"print(len(load({str(tmp_path / 'pics')!r}, size=8).images))\n"
    )
    done = subprocess.run(
        [sys.executable, str(script)],
        capture_output=True,
        text=True,
        timeout=60,
        env={**environment(), "TAMATCH_CACHE": str(tmp_path / "c"), "PYTHONPATH": os.getcwd()},
    )
    assert (done.stdout, done.stderr) == (f"{bulk.IN_PROCESS}\n", "")


@pytest.mark.parametrize(
    "fault", ["flip", "header", "cut", "longer", "gone", "digests", "manifest", "rubbish"]
)
def test_a_damaged_entry_is_built_again(fault: str, files: list[Path], own_cache: Path) -> None:
    good = np.array(decode_all(files, 16).images)
    (entry,) = entries(own_cache)
    pixels = entry / "pixels.npy"
    if fault in ("flip", "header", "digests"):
        damaged = entry / "digests.npy" if fault == "digests" else pixels
        content = bytearray(damaged.read_bytes())
        content[60 if fault == "header" else 200] ^= 4
        damaged.write_bytes(content)
    elif fault == "longer":
        pixels.write_bytes(pixels.read_bytes() + b"x")
    elif fault == "cut":
        pixels.write_bytes(pixels.read_bytes()[:-1])
    elif fault == "gone":
        pixels.unlink()
    else:
        (entry / "manifest.json").write_text("{" if fault == "rubbish" else '{"files": 3}')
    assert (decode_all(files, 16).images == good).all()
    assert entries(own_cache) == [entry]
    assert cache._read(entry, 16) is not None


def test_key_follows_content_list_and_size(files: list[Path]) -> None:
    keys = {fingerprint(files, "16"), fingerprint(files, "32"), fingerprint(files[:-1], "16")}
    before = files[3].stat()
    content = bytearray(files[3].read_bytes())
    content[-20] ^= 1
    time.sleep(0.02)
    files[3].write_bytes(content)
    os.utime(files[3], ns=(before.st_atime_ns, before.st_mtime_ns))
    assert files[3].stat().st_size == before.st_size
    keys.add(fingerprint(files, "16"))
    files[4].unlink()
    keys.add(fingerprint(files, "16"))
    assert len(keys) == 5


def test_sizes_and_ways_of_decoding_lie_side_by_side(files: list[Path], own_cache: Path) -> None:
    for size, draft in ((16, True), (24, True), (16, False)):
        assert decode_all(files, size, draft).images.shape == (20, size, size, 3)
    assert len(entries(own_cache)) == 3


def test_a_changed_image_is_seen(files: list[Path]) -> None:
    assert decode_all(files, 16).images[2, 0, 0, 0] == 10
    put(files[2], 200)
    assert decode_all(files, 16).images[2, 0, 0, 0] == 200


def test_interrupted_building_leaves_nothing(files: list[Path], own_cache: Path) -> None:
    def stop(done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        decode_all(files, 16, progress=stop)
    assert entries(own_cache) == []
    assert len(decode_all(files, 16).images) == 20


def test_what_a_killed_process_left_is_swept_after_a_day(
    files: list[Path], own_cache: Path
) -> None:
    old, new, long = (own_cache / f"building-{name}" for name in ("old", "new", "long"))
    for folder in (old, new, long):
        folder.mkdir()
    (long / "pixels.npy").touch()  # begun two days ago, and written to just now
    for folder in (old, long):
        os.utime(folder, (0, 0))
    decode_all(files, 16)
    assert not old.exists() and new.exists() and long.exists()


def test_another_process_may_finish_while_we_sweep(
    files: list[Path], own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs = own_cache / "building-theirs"
    monkeypatch.setattr(Path, "glob", lambda folder, pattern: iter([theirs]))  # seen, then renamed
    assert len(decode_all(files, 16).images) == len(files)


def test_another_process_may_be_faster(own_cache: Path) -> None:
    def build(folder: Path, by: str = "the other") -> dict[str, str]:
        pixels = cache.PixelFile(folder / cache.PIXELS, 4)
        pixels.create(2)
        np.save(folder / cache.DIGESTS, pixels.write(0, [bytes(48), bytes(48)]))
        return {"by": by}

    def build_late(folder: Path) -> dict[str, str]:
        cache.open_or_build("key", 4, build)
        return build(folder, "us")

    entry = cache.open_or_build("key", 4, build_late)
    assert entries(own_cache) == [entry.folder]
    stored = json.loads((entry.folder / "manifest.json").read_text())
    assert stored["facts"] == {"by": "the other"}


REPLACING = """
import os, sys
from tamatch.data.bulk import decode_all

entry, *files = sys.argv[1:]
for _ in range(25):
    sys.stdin.readline()
    if decode_all(files, 16).images[3, 0, 0, 0] != 15:
        sys.exit("wrong images")
    os.stat(os.path.join(entry, "pixels.npy"))  # also while the other is still at it
    print("done", flush=True)
"""


def test_two_processes_may_replace_a_damaged_entry_at_once(
    files: list[Path], own_cache: Path
) -> None:
    good = np.array(decode_all(files, 16).images)
    (entry,) = entries(own_cache)
    with contextlib.ExitStack() as ended:
        both = [ended.enter_context(replacing(entry, files)) for _ in range(2)]
        for _ in range(25):
            content = bytearray((entry / "pixels.npy").read_bytes())
            content[-1] ^= 4
            (entry / "pixels.npy").write_bytes(content)
            for process in both:
                print(file=process.stdin, flush=True)
            told = [process.stdout.readline() for process in both]  # type: ignore[union-attr]
            if told != ["done\n", "done\n"]:
                break
        outputs = [process.communicate(timeout=60) for process in both]
    assert [error for _, error in outputs] == ["", ""]
    assert [process.returncode for process in both] == [0, 0]
    assert entries(own_cache) == [entry]
    assert cache._read(entry, 16) is not None
    assert (decode_all(files, 16).images == good).all()


def replacing(entry: Path, files: list[Path]) -> subprocess.Popen[str]:
    """A process that reads these files from the cache whenever it is told to."""
    return subprocess.Popen(
        [sys.executable, "-c", REPLACING, str(entry), *map(str, files)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONPATH": os.getcwd()},
    )  # fmt: skip


def test_a_full_disk_is_one_sentence(
    files: list[Path], own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(self: cache.PixelFile, first: int, images: list[bytes]) -> np.ndarray:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(cache.PixelFile, "write", full)
    with pytest.raises(
        DataError, match=r"No space left on device. Free some space, or set TAMATCH_CACHE"
    ):
        decode_all(files, 16)
    assert entries(own_cache) == []


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs Linux")
def test_a_full_disk_is_noticed_before_the_digests_are_returned() -> None:
    with pytest.raises(OSError, match="No space left on device"):
        cache.PixelFile(Path("/dev/full"), 4).write(0, [bytes(48)])


def test_a_cache_folder_that_cannot_be_made(
    files: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("TAMATCH_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.raises(DataError, match="cannot be written"):
        decode_all(files, 16)


def test_default_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TAMATCH_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    assert cache.cache_folder() == Path("/somewhere/tamatch")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache.cache_folder() == Path.home() / ".cache" / "tamatch"


def test_a_user_without_a_home_is_told_what_to_set(
    files: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a container whose user is a number that no list of users knows."""
    for variable in ("TAMATCH_CACHE", "XDG_CACHE_HOME", "HOME"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr(os, "getuid", lambda: 2**31 - 2)
    with pytest.raises(DataError, match=r"no home folder. Set TAMATCH_CACHE to a folder"):
        decode_all(files, 16)
    keep_compiled()  # does without


def test_other_users_can_read_a_common_cache(files: list[Path], own_cache: Path) -> None:
    """As far as the umask lets them."""
    before = os.umask(0o027)
    try:
        decode_all(files, 16)
    finally:
        os.umask(before)
    [entry] = entries(own_cache)
    assert stat.S_IMODE(entry.stat().st_mode) == 0o750
    assert {stat.S_IMODE(path.stat().st_mode) for path in entry.iterdir()} == {0o640}


def test_pixel_file_rows_in_any_order(tmp_path: Path) -> None:
    images = np.random.RandomState(0).randint(0, 256, (9, 4, 4, 3)).astype(np.uint8)
    file = cache.PixelFile(tmp_path / "p.npy", 4)
    file.create(9)
    for first in (6, 0, 3):
        file.write(first, [image.tobytes() for image in images[first : first + 3]])
    assert (file.open() == images).all()
    file.keep(np.array([1, 2, 5, 8]))
    assert (file.open() == images[[1, 2, 5, 8]]).all()
    file.keep(np.array([], np.int64))
    assert file.open().shape == (0, 4, 4, 3)


def test_digests_take_little_more_than_their_bytes() -> None:
    """Those of ten million images are 160 MB, not gigabytes."""
    images = 20_000
    tracemalloc.start()
    try:
        found = digests_of(bytes(3) for _ in range(images))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert found.shape == (images, DIGEST) and peak < 3 * found.nbytes


def test_memory_stays_flat(tmp_path: Path) -> None:
    """3,000 images at 96 pixels are 83 MB; building and checking the cache holds far less."""
    source = put(tmp_path / "0.png", 9, (96, 96))
    files = [source] * 3000
    decode_all(files[:10], 96)
    before = resident()
    peak = before

    def watch(done: int, total: int) -> None:
        nonlocal peak
        peak = max(peak, resident())

    decode_all(files, 96, progress=watch)
    assert peak - before < 40e6
