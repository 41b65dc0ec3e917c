"""What the scripts say of wrong use."""


def refused(kind, words, function, *arguments, **named):
    """The call raises `kind`, and its sentence has all of `words`."""
    try:
        function(*arguments, **named)
    except kind as error:
        assert all(word in str(error) for word in words), f"{words} not in: {error}"
        return
    raise AssertionError(f"{function} did not raise {kind.__name__}")
