"""The paper's tables and figures, from one command each: `tamatch bench NAME`.

Nothing here imports torch until a run is trained.
"""
