"""The workloads behind `perdure bench`, and what they are run on.

workloads/     what is done and what is measured: one module for each shape
bed.py         engine, database, worker and client, each in processes of its own
engine.py      a `perdure dev` with a temporary database
worker.py      the worker's program; workflows.py what it runs; effects.py and job_log.py what it
               leaves, job_log.py the jobs too
accounting.py  whose CPU; proc.py where the kernel says so
processes.py   children that do not outlive us (tied.py)
report.py      the line at the end; arithmetic.py how its figures come about
profiling.py   py-spy beside it all
"""
