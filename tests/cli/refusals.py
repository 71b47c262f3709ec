"""What a refusal of the command line looks like."""


def refused(answer, code, *said):
    """One line of error, with these words, and this exit code."""
    assert answer.code == code, answer
    assert answer.out == "", answer
    assert answer.err.startswith("memspine: "), answer
    assert answer.err.count("\n") == 1, answer
    for words in said:
        assert words in answer.err, answer
    assert len(answer.err) < 700, answer
