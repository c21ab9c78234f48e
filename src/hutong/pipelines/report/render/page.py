"""The page: one HTML file that names no other and runs no script.

Its security policy allows nothing but its own style sheet, by that sheet's digest, so it may be put up anywhere. Text
that comes from a run (names, messages) passes `escaped`.

Knows nothing of where the figures come from.
"""

import base64
import hashlib
from collections.abc import Sequence

from hutong.pipelines.engine.failures import translate
from hutong.pipelines.engine.stages import Stage, size
from hutong.pipelines.report.model import RunFailure, SparkJob, SparkRun
from hutong.pipelines.report.render.dag import stage_dag, stage_title
from hutong.pipelines.report.render.markup import count, duration, escaped, style, utc
from hutong.pipelines.report.render.streams import query_section
from hutong.pipelines.report.render.tables import Column, Markup, Tile, table, tiles

STAGE_ROWS_MAX = 100
SIBLING_ROWS_MAX = 50
WORK_DRAWN_MAX = 12
NO_PLACE = "NativeMethodAccessorImpl"
GOOD, BAD = {"finished", "stopped"}, {"failed", "died"}
STAGE_COLUMNS = (
    Column("stage", is_number=True),
    Column("what"),
    Column("state"),
    *(Column(title, is_number=True) for title in ("tasks", "failed", "took", "tasks ran", "longest task")),
    *(Column(title, is_number=True) for title in ("rows in", "shuffled in", "shuffled out", "spilled")),
)


def page(run: SparkRun) -> str:
    """The whole document."""
    body = [_head(run), _notes(run), _failures(run)]
    body += [query_section(query) for query in sorted(run.queries.values(), key=lambda query: query.name)]
    body += [_works(run), _stages(run), _siblings(run)]
    digest = base64.b64encode(hashlib.sha256(style().encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{escaped(policy)}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark">'
        f"<title>{escaped(run.name)}: a run on Spark</title><style>{style()}</style></head>"
        f"<body><main>{''.join(body)}</main></body></html>\n"
    )


def state_of(run: SparkRun) -> str:
    """Return the state in its record, else the one that the event log shows."""
    if run.state:
        return run.state
    if run.ended_ms is None:
        return "not ended"
    return "failed" if any(job.status == "FAILED" for job in run.jobs.values()) else "finished"


def _head(run: SparkRun) -> str:
    state = state_of(run)
    kind = "good" if state in GOOD else "bad" if state in BAD else "open"
    about = [f"started {utc(run.started_ms)}"] if run.started_ms is not None else []
    if run.started_ms is not None and run.ended_ms is not None:
        about.append(f"lasted {duration(max(0, run.ended_ms - run.started_ms))}")
    about += [f"Spark {run.spark_version}"] if run.spark_version else []
    about += [part for part in (run.master, run.application_id) if part]
    heading = f"<h1>{escaped(run.name or 'A run on Spark')} <span class='state {kind}'>{escaped(state)}</span></h1>"
    return f"{heading}<p class='about'>{escaped(' · '.join(about))}</p>{tiles(_figures(run))}"


def _figures(run: SparkRun) -> list[Tile]:
    ran = [stage for stage in run.stages.values() if stage.status != "SKIPPED"]
    figures = [Tile("jobs", count(len(run.jobs))), Tile("stages that ran", count(len(ran)))]
    figures += [Tile("tasks", count(sum(stage.task_count for stage in ran)))]
    figures += [Tile("time of all tasks", duration(sum(stage.run_time_ms for stage in ran)))]
    shuffled = sum(stage.shuffle_write_bytes for stage in ran)
    figures += [Tile("shuffled", size(shuffled))] if shuffled else []
    failed = sum(stage.failed_task_count for stage in ran)
    return figures + ([Tile("tasks that failed", count(failed))] if failed else [])


def _notes(run: SparkRun) -> str:
    return f"<div class='notes'>{''.join(f'<p>{escaped(note)}</p>' for note in run.notes)}</div>" if run.notes else ""


def _failures(run: SparkRun) -> str:
    """A row for each sentence: its stage, job and query repeat a task's failure."""
    found: dict[str, list[RunFailure]] = {}
    for failure in run.failures.values():
        found.setdefault(str(translate(Exception(failure.message))), []).append(failure)
    if not found:
        return ""
    rows = [
        (
            Markup(f"{escaped(sentence)}{_full_text(sentence, failures)}"),
            ", ".join(failure.where for failure in failures[:6]),
            count(max(failure.count for failure in failures)),
            utc(next((failure.time_ms for failure in failures if failure.time_ms is not None), None)),
        )
        for sentence, failures in found.items()
    ]
    columns = (Column("what"), Column("where"), Column("times", is_number=True), Column("first seen"))
    return f"<h2>What went wrong</h2>{table(columns, rows)}"


def _full_text(sentence: str, failures: Sequence[RunFailure]) -> str:
    longest = max((failure.message for failure in failures), key=len).strip()
    if longest == sentence:
        return ""
    return f"<details><summary>all that Spark said</summary><pre>{escaped(longest)}</pre></details>"


def _works(run: SparkRun) -> str:
    drawn = _drawn(run)
    if not drawn:
        return ""
    parts = []
    for title, jobs in drawn[:WORK_DRAWN_MAX]:
        stages = run.stages_of(jobs)
        parts.append(f"<h3>{escaped(title)}</h3><div class='wide'>{stage_dag(stages)}</div>")
    if len(drawn) > WORK_DRAWN_MAX:
        parts.append(f"<p class='hint'>{len(drawn) - WORK_DRAWN_MAX:,} more, that took less time, are not drawn.</p>")
    hint = "A stage waits for those above it, whose shuffled output it reads. The bar is its share of the longest one."
    return f"<h2>Stages, and what they wait for</h2><p class='hint'>{hint}</p>{''.join(parts)}"


def _drawn(run: SparkRun) -> list[tuple[str, list[SparkJob]]]:
    """The last finished and the slowest micro-batch of each query; of other work all, the longest first."""
    batches: dict[str, list[tuple[int, list[SparkJob]]]] = {}
    others: list[list[SparkJob]] = []
    for jobs in run.works().values():
        if jobs[0].query_id:
            batches.setdefault(jobs[0].query_id, []).append((_took_ms(jobs), jobs))
        else:
            others.append(jobs)
    found: list[tuple[str, list[SparkJob]]] = []
    for query_id, works in batches.items():
        whole = [work for work in works if all(job.status == "SUCCEEDED" for job in work[1])] or works
        name = run.query(query_id).name
        slowest = max(whole, key=lambda work: work[0])
        for what, (took_ms, jobs) in {"last": whole[-1], "slowest": slowest}.items():
            if what == "last" or jobs is not whole[-1][1]:
                found.append((f"{name}: batch {jobs[0].batch_id}, the {what} ({duration(took_ms)} of jobs)", jobs))
    return found + [(_title(jobs), jobs) for jobs in sorted(_joined(others), key=lambda jobs: -_took_ms(jobs))]


def _joined(works: Sequence[list[SparkJob]]) -> list[list[SparkJob]]:
    """Works that share a stage are one picture: a program that computes from the same data several times."""
    work_of_stage: dict[int, int] = {}
    members: dict[int, list[SparkJob]] = {}
    for number, jobs in enumerate(works):
        stage_ids = {stage_id for job in jobs for stage_id in job.stage_ids}
        shared = {work_of_stage[stage_id] for stage_id in stage_ids if stage_id in work_of_stage}
        merged = [job for other in sorted(shared) for job in members.pop(other)] + jobs
        members[number] = merged
        work_of_stage.update({stage_id: number for job in merged for stage_id in job.stage_ids})
    return list(members.values())


def _took_ms(jobs: Sequence[SparkJob]) -> int:
    return sum(job.ended_ms - job.submitted_ms for job in jobs if job.ended_ms and job.submitted_ms)


def _title(jobs: Sequence[SparkJob]) -> str:
    """Named after its last job, which is what the program asked for."""
    return f"{jobs[-1].name} ({_counted(len(jobs), 'job')}, {duration(_took_ms(jobs))})"


def _siblings(run: SparkRun) -> str:
    """The other runs of the same pipeline: each start of a driver is one."""
    if len(run.siblings) < 2:
        return ""
    rows = [
        (sibling.run_id, sibling.state, str(sibling.attempt), utc(sibling.started_ms), sibling.error or "-")
        for sibling in run.siblings[-SIBLING_ROWS_MAX:]
    ]
    columns = (Column("run"), Column("state"), Column("attempt", is_number=True), Column("started"), Column("error"))
    hint = f"This page is about {run.run_id}."
    if len(rows) < len(run.siblings):
        hint += f" Of {len(run.siblings):,} runs, the newest {len(rows)}."
    return f"<h2>Runs of this pipeline</h2><p class='hint'>{escaped(hint)}</p>{table(columns, rows)}"


def _stages(run: SparkRun) -> str:
    ran = [stage for stage in run.stages.values() if stage.status != "SKIPPED"]
    if not ran:
        return ""
    shown = sorted(ran, key=lambda stage: (-stage.run_time_ms, stage.stage_id))[:STAGE_ROWS_MAX]
    hint = "Longest first." if len(shown) == len(ran) else f"The {len(shown)} longest of {len(ran):,}."
    return f"<h2>All stages</h2><p class='hint'>{hint}</p>{table(STAGE_COLUMNS, map(_stage_row, shown))}"


def _stage_row(stage: Stage) -> tuple[str, ...]:
    took = stage.ended_ms - stage.submitted_ms if stage.ended_ms and stage.submitted_ms else None
    return (
        str(stage.stage_id),
        _what(stage),
        stage.status.lower(),
        count(stage.task_count),
        count(stage.failed_task_count) if stage.failed_task_count else "-",
        "-" if took is None else duration(max(0, took)),
        duration(stage.run_time_ms),
        duration(stage.longest_task_ms) if stage.longest_task_ms else "-",
        count(stage.input_row_count) if stage.input_row_count else "-",
        size(stage.shuffle_read_bytes),
        size(stage.shuffle_write_bytes),
        size(stage.spilled_bytes),
    )


def _what(stage: Stage) -> str:
    """Operators, and the place in the program unless that is Java's own."""
    if not stage.operators or NO_PLACE in stage.name:
        return stage_title(stage)
    return f"{stage_title(stage)} ({stage.name})"


def _counted(number: int, word: str) -> str:
    return f"{number:,} {word}{'s' * (number != 1)}"
