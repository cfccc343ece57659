"""EmbeddedPostgresError: the only error of this package."""


class EmbeddedPostgresError(Exception):
    """The embedded PostgreSQL cannot be run.

    Says what went wrong, what the reader can do about it, and the last lines of the server's log
    when it got as far as writing one.
    """

    def __init__(self, problem: str, advice: str, log_tail: str = "") -> None:
        self.problem = problem
        self.advice = advice
        self.log_tail = log_tail
        text = f"{problem}\n{advice}"
        if log_tail:
            text = f"{text}\nThe last lines of its log:\n{log_tail}"
        super().__init__(text)
