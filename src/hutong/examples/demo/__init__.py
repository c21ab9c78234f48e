"""`hutong demo`: the whole system on real events of this machine. Begin to read in `run.py`.

Three streams go in (`import_graph`, `host_metrics`, `web_log`), two jobs on Spark compute over them (`jobs`), and every
answer is computed again without Spark (`plain`). `cli/node/demo.py` is the command.
"""
