"""The command `perdure`.

    app.py         the commands, put together          session.py   one command's frame
    workflow/      perdure workflow …                  settings.py  flag, environment, file
    namespace.py   perdure namespace …                 errors.py    exit codes and messages
    engine.py      perdure server, dev, db             output.py    tables and JSON
    demo/          perdure demo                        printable.py what a terminal may see
    bench.py       perdure bench                       inputs.py    JSON from arguments and files

No module here imports gRPC before a command needs it: `perdure --help` must be quick.
"""


def main() -> None:
    """The entry point `perdure`. Ends by SystemExit; see `errors.ExitCode`."""
    from perdure.cli.app import main as run

    run()


__all__ = ["main"]
