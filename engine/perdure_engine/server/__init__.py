"""The composition root: reads the configuration, makes clock, ids, store and rooms, starts and stops
them. The wall clock, randomness and the environment are touched here and nowhere else.

    entry.py           the commands, found by the CLI through the entry points `perdure.engine`
    dev.py             `perdure dev`: an embedded PostgreSQL and everything else in one process
    schema.py          `perdure db`, and the check of the schema before a start
    running.py         the event loop, from the start of a node to the signal that ends it
    wiring.py          the only module that names the concrete classes; makes a Node
    node.py            a running engine, as those see it who started it
    lifecycle.py       start once, stop in reverse, in bounded time
    config.py          the settings; config_layers.py says where they come from
    dsn.py  logs.py    what may be shown of a database's address; the log
    addresses.py       host:port, and which of them is free
    version.py         which Perdure this is
    clock.py           time, ids and randomness
    embedded/          the supervisor of the embedded PostgreSQL
    in_process/        the engine inside a test's own process, for perdure.testing
"""
