# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""Turns states into bytes and back; knows nothing of sessions or stores."""

import hashlib
import pickle
from typing import Final, Generic, Protocol, TypeVar, final

import msgspec
from itsdangerous import Signer
from pydantic import BaseModel

from truezero.errors import ConfigurationError

State = TypeVar("State")
Model = TypeVar("Model", bound=BaseModel)

_SALT: Final = b"truezero.sessions.toolkit.pickle"


class Codec(Protocol[State]):
    """Turns a state into bytes and back. What either raises is told to the caller, typed."""

    def encode(self, state: State) -> bytes:
        """The state as bytes."""
        ...

    def decode(self, data: bytes) -> State:
        """The state of such bytes; it raises for all others."""
        ...


@final
class PydanticCodec(Generic[Model]):
    """Keeps a pydantic model as its own JSON.

    What that JSON does not carry is not kept: private attributes, excluded fields, and, unless the
    model says ``ser_json_inf_nan="constants"``, a float that is no finite number.

    Args:
        model: The class, exactly: a subclass would come back as less than it was.
    """

    def __init__(self, model: type[Model]) -> None:
        """Keep the class."""
        self._model = model

    def encode(self, state: Model) -> bytes:
        """The model's JSON.

        Raises:
            TypeError: The state is of another class.
        """
        _refuse_other(state, self._model)
        return state.model_dump_json(round_trip=True).encode()

    def decode(self, data: bytes) -> Model:
        """A validated model.

        Raises:
            pydantic.ValidationError: The bytes do not fit.
        """
        return self._model.model_validate_json(data)


@final
class MsgspecCodec(Generic[State]):
    """Keeps whatever msgspec can, as MessagePack: structs, dataclasses, builtin types.

    Args:
        kind: The type. Of a class exactly that one: a subclass would come back as less.
    """

    def __init__(self, kind: type[State]) -> None:
        """Build the decoder."""
        self._kind = kind
        self._encoder = msgspec.msgpack.Encoder()
        self._decoder = msgspec.msgpack.Decoder(kind)

    def encode(self, state: State) -> bytes:
        """The state as MessagePack.

        Raises:
            TypeError: The state is of another class, or holds what msgspec cannot encode.
        """
        _refuse_other(state, self._kind)
        return self._encoder.encode(state)

    def decode(self, data: bytes) -> State:
        """A validated state.

        Raises:
            msgspec.DecodeError: The bytes do not fit.
        """
        return self._decoder.decode(data)


@final
class PickleCodec(Generic[State]):
    """Keeps whatever pickles, signed: else who can write the store could run code here.

    Who can write the store still can put one session's state in another's place, or an older one.

    Args:
        secret: The key, the same for all workers.

    Raises:
        ConfigurationError: An empty secret.
    """

    def __init__(self, *, secret: str | bytes) -> None:
        """Make the signer."""
        if not secret:
            raise ConfigurationError(
                "PickleCodec(secret=...)", "is empty, and anybody could sign with it"
            )
        self._signer = Signer(
            secret, salt=_SALT, key_derivation="hmac", digest_method=hashlib.sha256
        )

    def encode(self, state: State) -> bytes:
        """The signed pickle."""
        return self._signer.sign(pickle.dumps(state, protocol=pickle.HIGHEST_PROTOCOL))

    def decode(self, data: bytes) -> State:
        """The state, if its signature verifies; not one byte is unpickled before that.

        Raises:
            BadSignature: It was signed with another key, or was changed.
        """
        state: State = pickle.loads(self._signer.unsign(data))  # noqa: S301 -- signed by us
        return state


def _refuse_other(state: object, kind: object) -> None:
    if isinstance(kind, type) and type(state) is not kind:
        found, wanted = type(state).__name__, kind.__name__
        raise TypeError(f"the state is a {found}, not a {wanted}")  # noqa: TRY003, EM102 -- one place
