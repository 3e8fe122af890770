"""Two runs that tune into one database."""

from __future__ import annotations

from foretune.inference.database.tuning_database import folder_of
from foretune.inference.database.turns import TURN_FILE, turn_in
from support.checkpoints import HARDWARE, TARGET
from support.locks import held_by_another_process


def test_a_run_waits_for_the_end_of_another_one(tmp_path):
    folder, told = folder_of(tmp_path, TARGET, HARDWARE), []
    with turn_in(folder, told.append) as waited_s:
        assert told == [] and waited_s < 1
    with held_by_another_process(folder / TURN_FILE) as holder:

        def say(text: str) -> None:
            told.append(text)
            holder.kill()

        with turn_in(folder, say):
            pass
    (line,) = told
    assert line.startswith(f"database={tmp_path}: another run (process {holder.pid} on ")
    assert "continues from its results" in line and "require_database=true" in line
