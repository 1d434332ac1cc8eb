"""Errors that a user can cause: one line that says what happened, where, and what to do."""

from __future__ import annotations


class TamatchError(Exception):
    """Base of all errors meant for the user; the command line prints it without a traceback."""

    exit_code = 1
    alike = False  # raised by every process of a run, so that one speaks for all


class UsageError(TamatchError):
    """A wrong option, name or value."""

    exit_code = 2
    alike = True


class DataError(TamatchError):
    """Images, labels or files that cannot be used."""

    exit_code = 3


class StorageError(DataError):
    """A file of ours that cannot be written: the disk is full, or it is not allowed."""


class NumericError(TamatchError):
    """Training left the numbers it can go on from."""

    exit_code = 4
