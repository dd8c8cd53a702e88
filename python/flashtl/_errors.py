"""What the library says when something is wrong."""


class Error(RuntimeError):
    """The world failed (no driver, no compiler, a file), or a check did; 'status' is the C library's: "NO_DRIVER"."""

    def __init__(self, text, status="INVALID_ARGUMENT"):
        super().__init__(text)
        self.status = status

    def __reduce__(self):
        return type(self), (self.args[0], self.status)


class DiagnosticError(Error):
    """A program is wrong. The text is what the command prints: place, line, caret, hints.

    'diagnostics' is a list of dictionaries: id, severity, file, line, column, end_line, end_column, message, and notes,
    which are such dictionaries (a hint's severity is "hint"). The attributes are those of the first error.
    """

    def __init__(self, text, diagnostics):
        super().__init__(text, "REJECTED")
        self.diagnostics = diagnostics
        errors = [item for item in diagnostics if item["severity"] == "error"]
        first = (errors or diagnostics or [{}])[0]
        self.id, self.message = first.get("id"), first.get("message")
        self.file, self.line, self.column = first.get("file"), first.get("line"), first.get("column")
        hints = [note["message"] for note in first.get("notes", ()) if note["severity"] == "hint"]
        self.hint = hints[0] if hints else None

    def __reduce__(self):
        return type(self), (self.args[0], self.diagnostics)
