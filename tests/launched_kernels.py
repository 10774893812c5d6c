"""Works that are launched in place of being timed, so that tests see which kernels each of them launches."""


def timers_of(backend, monkeypatch):
    """Return a class in place of `cpms.experiment.timers.Timer`, whose columns have the kernels that its work launched.

    Times are the same for all works; ``turns`` counts the samples.
    """
    launched, run = [], type(backend).run
    monkeypatch.setattr(
        type(backend), "run", lambda self, v, blocks, given: launched.append(v.kernel) or run(self, v, blocks, given)
    )

    class Timer:
        def __init__(self, work, *, same):
            assert same
            launched.clear()
            work()
            self.kernels, self.turns = list(launched), 0

        def turn(self):
            self.turns += 1

        def columns(self):
            return {"median_ms": 0.25, "least_ms": 0.2, "most_ms": 0.3, "kernels": self.kernels, "turns": self.turns}

    return Timer
