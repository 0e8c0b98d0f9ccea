"""Typed parameters: a release YAML, and the host, protocol, prompt and target files it names."""

from lqw.params.hosts import HostClassSpec, HostEngineSpec, HostSpec, MarginSpec
from lqw.params.loading import load_params
from lqw.params.protocol import IdentityPrompts, IdentitySpec, LaunchSpec, ProtocolSpec, StepSpec
from lqw.params.specs import BesideSpec, EngineSpec, ModelSpec, Params, ReleaseSpec, TargetsSpec
from lqw.params.strict import Strict

__all__ = [
    "BesideSpec",
    "EngineSpec",
    "HostClassSpec",
    "HostEngineSpec",
    "HostSpec",
    "IdentityPrompts",
    "IdentitySpec",
    "LaunchSpec",
    "MarginSpec",
    "ModelSpec",
    "Params",
    "ProtocolSpec",
    "ReleaseSpec",
    "StepSpec",
    "Strict",
    "TargetsSpec",
    "load_params",
]
