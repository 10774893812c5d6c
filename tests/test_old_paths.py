"""Old import paths find what has moved, and say where it is now."""

from importlib import import_module

import pytest

import cpms

FACES = ("format", "precision", "segmented", "graph", "datasets", "generators")
POLICIES = {
    "Refining": "RefinementPolicy",
    "AdaptiveGain": "AdaptiveReduction",
    "FixedGain": "FixedReduction",
}


@pytest.mark.quick
@pytest.mark.parametrize("face", FACES)
def test_a_face_has_its_names_and_warns(face):
    module = import_module(f"cpms.{face}")
    names = dir(module)
    assert names
    for name in names:
        with pytest.warns(DeprecationWarning, match=rf"cpms\.{face}\.{name} has moved to (\S+);") as caught:
            found = getattr(module, name)
        home = str(caught[0].message).split(" has moved to ")[1].split(";")[0]
        assert found is getattr(import_module(home), name)
        assert getattr(cpms, name, found) is found


@pytest.mark.quick
def test_a_name_that_a_face_never_had_is_an_attribute_error():
    with pytest.raises(AttributeError, match=r"module 'cpms\.format' has no attribute 'FP17'"):
        _ = cpms.format.FP17


@pytest.mark.quick
@pytest.mark.parametrize(("old", "new"), POLICIES.items())
def test_old_policies_are_policies(old, new):
    assert issubclass(getattr(cpms.refine, old), getattr(cpms, new))
