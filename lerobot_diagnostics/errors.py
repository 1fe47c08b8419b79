"""The one exception for what the user can mend: it becomes one line on stderr and exit code 2."""


class UsageError(Exception):
    """Something the user asked for cannot be done as asked.

    Args:
        message: What is wrong, in one line, with the value that is wrong.
        fix: What to do about it, with the exact flag or command. Appended to the line.

    The command-line entry points print ``str(error)`` and exit with code 2; library callers get the exception.
    """

    def __init__(self, message: str, fix: str = "") -> None:
        self.message = " ".join(message.split())
        self.fix = " ".join(fix.split())
        super().__init__(f"{self.message} {self.fix}".strip())
