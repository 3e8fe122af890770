"""Random programs of tasks, drawn on one machine to be measured on another that is lent for minutes.

Most programs drawn for a GPU are none that it can run, so that drawing takes longer there than measuring.
"""

from __future__ import annotations

from pathlib import Path

from foretune.dataset.program_sampling.random_draws import RandomSampler
from foretune.dataset.stored_tasks import stored_rows, stored_task
from foretune.dataset.tvm_compat import NoDesignSpaceError, parse_target
from foretune.inference.proposal_folder import ProposalFolder


def draw(tasks: Path, database: Path, target: str, programs: int, seed: int) -> int:
    """Draws up to `programs` different programs of each task of a dataset into a MetaSchedule database.

    What is in the database is continued. `target` is a name such as nvidia/nvidia-h100. Returns the number of
    programs drawn now. Raises UserError, such as for a database of measured programs.
    """
    machine = parse_target(target)
    proposals = ProposalFolder(database, machine)
    rows, total = stored_rows(tasks), 0
    for number, row in enumerate(rows):
        if row.workload_hash in proposals.searched:
            continue
        task = stored_task(row)
        try:
            found = RandomSampler(task, machine, per_round=programs, seed=seed + number).propose()
        except NoDesignSpaceError:
            found = []
        proposals.add(task, [trace for trace, _ in found])
        total += len(found)
        print(f"{number + 1} of {len(rows)} tasks: {row.name}, {len(found)} programs", flush=True)
    return total
