"""`hutong pipeline`: declared pipelines and the library of jobs.

Spark is imported when something is run, analysed or explained, not before: the commands that need none work without it.
"""

import typer

from hutong.cli.pipeline import fixed, running
from hutong.cli.pipeline.checking import init, validate
from hutong.cli.pipeline.explaining import explain
from hutong.cli.pipeline.reporting import report
from hutong.cli.pipeline.showing import list_all, status

app = typer.Typer(name="pipeline", help="Declare and run data pipelines on Spark.", no_args_is_help=True)
run_app = typer.Typer(name="run", cls=running.RunGroup, help="Run a pipeline or a job.")

app.command("init")(init)
app.command("validate")(validate)
app.add_typer(run_app, name="run")
app.command("list")(list_all)
app.command("status")(status)
app.command("stop")(running.stop)
app.command("explain")(explain)
app.command("report")(report)

run_app.command(running.DECLARED, hidden=True)(running.run_declared)
run_app.command("access-log", help="Requests, bytes and status classes per hour, and the most wanted paths.")(
    fixed.access_log
)
run_app.command("pagerank", help="Ranks of pages by the links between them.")(fixed.pagerank)
