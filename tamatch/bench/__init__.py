"""Lists of runs, their tables, ranks and speed: `tamatch bench NAME`.

Nothing here imports torch until a run is trained. What judges the paper is in `paper/`, which is
not part of the package.
"""
