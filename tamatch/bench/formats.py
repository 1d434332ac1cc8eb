"""Pages of tables as text, Markdown, LaTeX and HTML."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape

Row = tuple[str, ...]


@dataclass(frozen=True)
class Grid:
    """A table; its first column names the rows."""

    title: str
    header: Row
    rows: Sequence[Row]


@dataclass(frozen=True)
class Page:
    """Tables under one title, with notes below."""

    title: str
    grids: list[Grid]
    notes: list[str]


def text(page: Page) -> str:
    parts = [page.title]
    for grid in page.grids:
        lines = aligned([grid.header, *grid.rows])
        rule = "-" * max(map(len, lines))
        parts.append("\n".join([grid.title, rule, lines[0], rule, *lines[1:]]))
    return "\n\n".join([*parts, "\n".join(page.notes)]).rstrip() + "\n"


def aligned(rows: list[Row]) -> list[str]:
    """Columns of equal width: the first to the left, numbers to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]).rstrip()
        for row in rows
    ]


def markdown(page: Page) -> str:
    def line(cells: Row) -> str:
        return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"

    parts = [f"## {page.title}"]
    for grid in page.grids:
        rule = "| --- |" + " ---: |" * (len(grid.header) - 1)
        parts += [f"### {grid.title}", "\n".join([line(grid.header), rule, *map(line, grid.rows)])]
    return "\n\n".join([*parts, *page.notes]) + "\n"


SYMBOLS = str.maketrans({
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "_": r"\_", "#": r"\#", "$": r"\$",
    "{": r"\{", "}": r"\}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    "<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}", "–": r"\textendash{}",
    "±": r"$\pm$", "→": r"$\to$", "×": r"$\times$", "‖": r"$\Vert$", "≤": r"$\le$",
    "γ": r"$\gamma$", "ε": r"$\varepsilon$", "λ": r"$\lambda$", "η": r"$\eta$", "π": r"$\pi$",
    "Δ": r"$\Delta$", "Π": r"$\Pi$",
})  # fmt: skip


def in_latex(text: str) -> str:
    """Text without meaning of its own to LaTeX; `words` as code, "words" in its quotation marks,
    `--` as two signs.
    """
    plain = text.translate(SYMBOLS).replace("--", "-{}-")
    return re.sub('"([^"]*)"', r"``\1''", re.sub("`([^`]*)`", r"\\texttt{\1}", plain))


def latex(page: Page) -> str:
    """A `table` with booktabs for each grid; the notes stay with the last one."""
    small = r"\par\smallskip\raggedright\footnotesize"

    def line(cells: Row) -> str:
        return " & ".join(map(in_latex, cells)) + r" \\"

    parts = [f"% {page.title}"]
    for grid in page.grids:
        columns = "l" + "r" * (len(grid.header) - 1)
        notes = page.notes if grid is page.grids[-1] else []
        parts.append(
            "\n".join(
                [
                    r"\begin{table}", r"\centering", rf"\caption{{{in_latex(grid.title)}}}",
                    rf"\begin{{tabular}}{{{columns}}}", r"\toprule", line(grid.header), r"\midrule",
                    *map(line, grid.rows), r"\bottomrule", r"\end{tabular}",
                    *(f"{small} {in_latex(note)}" for note in notes), r"\end{table}",
                ]
            )
        )  # fmt: skip
    return "\n\n".join(parts) + "\n"


STYLE = (
    "body{font:16px system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}"
    "table{border-collapse:collapse;margin:0 0 2rem}caption{text-align:left;font-weight:600}"
    "td,th{padding:.25rem .75rem;text-align:right;border-bottom:1px solid #ccc}"
    "td:first-child,th:first-child{text-align:left}"
)


def html(page: Page) -> str:
    """One self-contained file."""

    def line(cells: Row, tag: str) -> str:
        return "<tr>" + "".join(f"<{tag}>{escape(cell)}</{tag}>" for cell in cells) + "</tr>"

    title = escape(page.title)
    parts = [
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f"<title>{title}</title><style>{STYLE}</style></head><body><h1>{title}</h1>"
    ]
    for grid in page.grids:
        body = "\n".join(line(row, "td") for row in grid.rows)
        head = f"<caption>{escape(grid.title)}</caption><thead>{line(grid.header, 'th')}</thead>"
        parts.append(f"<table>{head}<tbody>\n{body}\n</tbody></table>")
    notes = [f"<p>{escape(note)}</p>" for note in page.notes]
    return "\n".join([*parts, *notes, "</body></html>"]) + "\n"


FORMATS: dict[str, Callable[[Page], str]] = {
    "text": text, "markdown": markdown, "latex": latex, "html": html,
}  # fmt: skip
