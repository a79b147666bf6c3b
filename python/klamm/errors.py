"""All exceptions of klamm.

```text
KafkaError                      base class; .hint says what to do, .retriable whether to try again
├── BrokerError                 a broker refused a request: .code .name .topic .partition .broker
│   ├── UnknownTopicOrPartitionError
│   ├── MessageTooLargeError    ... one subclass for each error code of Kafka
│   └── ...
├── NetworkError                a connection could not be opened, or was lost
├── KafkaTimeoutError           a timeout passed; also a TimeoutError
├── ConfigError                 an invalid configuration or argument value; also a ValueError
├── ArgumentError               an argument of the wrong type; also a TypeError
├── DecodeError                 damaged data, or data in another format: .path .offset
│   ├── DeserializationError    a deserializer raised an exception: .record
│   └── OffsetInMessageError    no message of Kafka 0.7 begins at the requested byte offset
├── AuthenticationError         TLS or SASL authentication failed (also some error codes)
├── FencedError                 a newer client has the same ID, such as a transactional_id (also some error codes)
├── TransactionAbortedError     a transaction was aborted: .code is the error code that caused the abort
├── BufferFullError             the producer's buffer is full, and the call does not wait
├── CombinedError               several items of one call failed: .errors .results
├── DeliveryError               records were not delivered: .exceptions
├── ClosedError                 the client is closed
├── ForkedClientError           the client was created before a fork
├── OtherClusterError           another cluster answers at the address of the client's cluster
└── InternalError               the client stopped because of a bug in klamm
```

Each subclass of `BrokerError` has the name of its error code: UNKNOWN_TOPIC_OR_PARTITION is
`UnknownTopicOrPartitionError`. klamm creates a subclass from the core's table of error codes when a program first uses
the subclass. Type checkers read the class names at the end of this file. A test compares these names with the core's
table. An error with an unknown code is a plain `BrokerError`.
"""

from __future__ import annotations

from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from klamm._klamm import error_codes

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from typing_extensions import Self

    from klamm._klamm import Record
    from klamm.protocol import Batch, BatchRecord


class BrokerAddress(str):
    """The address of a broker, as a string `host:port` with additional attributes.

    Attributes:
        host: Host, or None if the text names more than one broker.
        port: Port, or None if the text names more than one broker.
        node_id: ID of the broker, or None if it is not known.
    """

    __slots__ = ("host", "node_id", "port")

    host: str | None
    port: int | None
    node_id: int | None

    def __new__(cls, text: str, node_id: int | None = None) -> Self:
        """Parse the text `host:port`, or `[host]:port` for an IPv6 address."""
        self = super().__new__(cls, text)
        host, _, port = text.rpartition(":")
        is_one = "," not in text and port.isdecimal()
        self.host = host.removeprefix("[").removesuffix("]") if is_one else None
        self.port = int(port) if is_one else None
        self.node_id = node_id
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return BrokerAddress, (str(self), self.node_id)


class KafkaError(Exception):
    """The base class of all exceptions of klamm.

    Attributes:
        message: What klamm tried, and what happened.
        hint: What to do, or None.
        retriable: Whether the same call can succeed later, although the program and the cluster's configuration stay
            the same. True for `NetworkError`, `KafkaTimeoutError`, `BufferFullError` and retriable error codes.
        topic: Topic that the error is about, or None.
        partition: Number of the partition that the error is about, or None.
        broker: Address of the broker, or None. The address is a string with the attributes `host`, `port` and
            `node_id`.
        results: Results of the items that succeeded, if the call had more than one item.
    """

    retriable: bool = False
    topic: str | None = None
    partition: int | None = None
    broker: BrokerAddress | None = None
    results: Mapping[Any, Any] = MappingProxyType({})

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return self.message if self.hint is None else f"{self.message}; hint: {self.hint}"

    def __reduce__(self) -> tuple[Any, ...]:
        # By default, pickling keeps only `args`, so an error from a Spark task would lose its other attributes.
        return _restore, (type(self), vars(self))


def _restore(kind: type[KafkaError], fields: dict[str, Any]) -> KafkaError:
    error = kind.__new__(kind, fields["message"])
    vars(error).update(fields)
    return error


class CombinedError(KafkaError):
    """More than one item of a call failed. If only one item failed, the call raises the error of that item instead.

    Attributes:
        errors: Dict from each failed item to its error.
        exceptions: All values of `errors`, as in an ExceptionGroup.
        results: Dict from each successful item to its result.
    """

    def __init__(self, errors: Mapping[Any, KafkaError]) -> None:
        first = next(iter(errors.values()))
        super().__init__(f"{len(errors)} items failed, the first because: {first.message}", hint=first.hint)
        self.errors = dict(errors)
        self.exceptions = tuple(errors.values())


class DeliveryError(KafkaError):
    """Records were not delivered, and the program has not yet received the errors of these records.

    `flush` and `close` raise `DeliveryError`, with the hint, topic, partition and broker of the first error.

    Attributes:
        exceptions: The errors, in the order in which they occurred. Records that failed together have the same error
            object.
    """

    def __init__(self, records: int, errors: Sequence[KafkaError]) -> None:
        """Create the error for a number of records that were not delivered."""
        first = errors[0]
        many = f"{records:,} records were not delivered, the first because"
        lost = "1 record was not delivered" if records == 1 else many
        super().__init__(f"{lost}: {first.message}", hint=first.hint)
        self.topic, self.partition, self.broker = first.topic, first.partition, first.broker
        self.exceptions = tuple(errors)


class BrokerError(KafkaError):
    """A broker responded to a request, or to a part of a request, with an error code.

    Attributes:
        code: Kafka's error code, or -1 if it is unknown.
        name: Name of the code, such as `UNKNOWN_TOPIC_OR_PARTITION`.
        retriable: Whether the same request can succeed later.
        topic: Topic that the error is about, or None.
        partition: Number of the partition that the error is about, or None.
        broker: Address of the broker, or None.
    """

    code: int
    name: str

    def __init__(
        self,
        message: str,
        *,
        code: int | None = None,
        topic: str | None = None,
        partition: int | None = None,
        broker: str | None = None,
        hint: str | None = None,
    ) -> None:
        super().__init__(message, hint=hint)
        if code is not None:
            self.code = code
        self.topic = topic
        self.partition = partition
        self.broker = None if broker is None else _address(broker)

    def __str__(self) -> str:
        where = "" if self.broker is None else f" (broker {self.broker})"
        return f"{self.message}{where}" + ("" if self.hint is None else f"; hint: {self.hint}")


def _address(broker: str) -> BrokerAddress:
    return broker if isinstance(broker, BrokerAddress) else BrokerAddress(broker)


# The defaults for error codes that are newer than the core's table.
BrokerError.code, BrokerError.name = -1, "UNKNOWN"


class NetworkError(KafkaError):
    """The client could not open a connection, or lost a connection."""

    retriable = True


class KafkaTimeoutError(KafkaError, TimeoutError):
    """A timeout passed before the result was known. The operation may still succeed."""

    retriable = True


class ConfigError(KafkaError, ValueError):
    """A configuration, or the value of an argument, is invalid."""


class ArgumentError(KafkaError, TypeError):
    """An argument has the wrong type."""


class DecodeError(KafkaError):
    """Data is damaged, or not in Kafka's format.

    Attributes:
        path: Path of the field that klamm could not decode.
        offset: Offset of the byte where decoding failed, or None.
        batches: In an error of `klamm.protocol.decode_records`, the valid batches before the damaged batch.
        records: In an error of `klamm.protocol.decode_records`, the valid records of the damaged batch.
    """

    def __init__(self, message: str, *, path: str = "", offset: int | None = None, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.path = path
        self.offset = offset
        self.batches: list[Batch] = []
        self.records: Sequence[BatchRecord] = []


class DeserializationError(DecodeError):
    """A deserializer raised an exception, which is the `__cause__` of this error.

    The consumer continues with the next record.

    Attributes:
        record: The record with its original bytes.
    """

    def __init__(self, field: str, record: Record) -> None:
        where = f"{record.topic}-{record.partition} at offset {record.offset}"
        super().__init__(f"cannot deserialize the {field} of the record in {where}", path=field)
        self.record = record
        self.topic = record.topic
        self.partition = record.partition
        self.offset = record.offset


class OffsetInMessageError(DecodeError):
    """The requested byte offset is inside a message of Kafka 0.6 or 0.7, not at the start of a message."""


class OutOfMemoryError(KafkaError, MemoryError):
    """The system has no memory for the records of a batch. The records are not lost: another attempt reads them."""


class AuthenticationError(KafkaError):
    """The broker rejected this client's credentials, or the client rejected the broker's certificate.

    The client does not retry by itself, because the broker would reject the same credentials again. The program's next
    call tries to authenticate again.
    """


class FencedError(KafkaError):
    """A newer client uses the same `transactional_id` or `group_instance_id`.

    Close the older client, because all its calls now fail.
    """


class TransactionAbortedError(KafkaError):
    """A transaction was aborted. Consumers that read only committed records do not see the records of the transaction.

    Attributes:
        code: Broker's error code that caused the abort, or None. The exception's `__cause__` is the full error.
    """

    def __init__(self, message: str, *, hint: str | None = None, code: int | None = None) -> None:
        super().__init__(message, hint=hint)
        self.code = code


class BufferFullError(KafkaError):
    """The producer's buffer is full, and the call does not wait for room."""

    retriable = True


class ClosedError(KafkaError):
    """The client is closed."""


class ForkedClientError(KafkaError):
    """The client was created before a fork, so its connections belong to the parent process."""


class OtherClusterError(KafkaError):
    """A broker of the wrong cluster answers at an address of the client's cluster.

    The client neither writes to the wrong cluster nor reads from it.
    """


class InternalError(KafkaError):
    """The client stopped because of a bug in klamm. The message contains the text of the Rust panic."""


class InsecureWarning(UserWarning):
    """The configuration disables a protection, such as the verification of host names."""


@cache
def _codes() -> dict[int, tuple[str, str, bool]]:
    """Return a dict from each error code to its class name, its Kafka name, and whether it is retriable."""
    return {code: (_class_name(name), name, retriable) for code, name, retriable, _ in error_codes() if code}


def _class_name(code_name: str) -> str:
    words = "".join(word.capitalize() for word in code_name.split("_"))
    return words if words.endswith("Error") else f"{words}Error"


def by_code(code: int) -> type[BrokerError]:
    """Return the exception class of an error code. An unknown code has the class `BrokerError`."""
    if code not in _codes():
        return BrokerError
    class_name, name, retriable = _codes()[code]
    if class_name not in globals():
        bases: tuple[type[KafkaError], ...] = (BrokerError, *_ALSO.get(name, ()))
        fields = {"code": code, "name": name, "retriable": retriable, "__module__": __name__}
        globals()[class_name] = type(class_name, bases, {"__doc__": f"{name} ({code}).", **fields})
    made: type[BrokerError] = globals()[class_name]
    return made


# Additional base classes for the exception classes of some error codes.
_ALSO: dict[str, tuple[type[KafkaError], ...]] = {
    "FENCED_INSTANCE_ID": (FencedError,),
    "INVALID_PRODUCER_EPOCH": (FencedError,),
    "PRODUCER_FENCED": (FencedError,),
    "ILLEGAL_SASL_STATE": (AuthenticationError,),
    "SASL_AUTHENTICATION_FAILED": (AuthenticationError,),
    "UNSUPPORTED_SASL_MECHANISM": (AuthenticationError,),
}

# This function is hidden from type checkers, which would otherwise accept any name.
if not TYPE_CHECKING:

    def __getattr__(class_name: str) -> Any:
        for code, (candidate, _, _) in _codes().items():
            if candidate == class_name:
                return by_code(code)
        raise AttributeError(f"module {__name__!r} has no attribute {class_name!r}")

    def __dir__() -> list[str]:
        return sorted({*globals(), *(class_name for class_name, _, _ in _codes().values())})


if TYPE_CHECKING:
    # fmt: off
    class UnknownServerError(BrokerError): ...
    class OffsetOutOfRangeError(BrokerError): ...
    class CorruptMessageError(BrokerError): ...
    class UnknownTopicOrPartitionError(BrokerError): ...
    class InvalidFetchSizeError(BrokerError): ...
    class LeaderNotAvailableError(BrokerError): ...
    class NotLeaderOrFollowerError(BrokerError): ...
    class RequestTimedOutError(BrokerError): ...
    class BrokerNotAvailableError(BrokerError): ...
    class ReplicaNotAvailableError(BrokerError): ...
    class MessageTooLargeError(BrokerError): ...
    class StaleControllerEpochError(BrokerError): ...
    class OffsetMetadataTooLargeError(BrokerError): ...
    class NetworkExceptionError(BrokerError): ...
    class CoordinatorLoadInProgressError(BrokerError): ...
    class CoordinatorNotAvailableError(BrokerError): ...
    class NotCoordinatorError(BrokerError): ...
    class InvalidTopicExceptionError(BrokerError): ...
    class RecordListTooLargeError(BrokerError): ...
    class NotEnoughReplicasError(BrokerError): ...
    class NotEnoughReplicasAfterAppendError(BrokerError): ...
    class InvalidRequiredAcksError(BrokerError): ...
    class IllegalGenerationError(BrokerError): ...
    class InconsistentGroupProtocolError(BrokerError): ...
    class InvalidGroupIdError(BrokerError): ...
    class UnknownMemberIdError(BrokerError): ...
    class InvalidSessionTimeoutError(BrokerError): ...
    class RebalanceInProgressError(BrokerError): ...
    class InvalidCommitOffsetSizeError(BrokerError): ...
    class TopicAuthorizationFailedError(BrokerError): ...
    class GroupAuthorizationFailedError(BrokerError): ...
    class ClusterAuthorizationFailedError(BrokerError): ...
    class InvalidTimestampError(BrokerError): ...
    class UnsupportedSaslMechanismError(BrokerError, AuthenticationError): ...
    class IllegalSaslStateError(BrokerError, AuthenticationError): ...
    class UnsupportedVersionError(BrokerError): ...
    class TopicAlreadyExistsError(BrokerError): ...
    class InvalidPartitionsError(BrokerError): ...
    class InvalidReplicationFactorError(BrokerError): ...
    class InvalidReplicaAssignmentError(BrokerError): ...
    class InvalidConfigError(BrokerError): ...
    class NotControllerError(BrokerError): ...
    class InvalidRequestError(BrokerError): ...
    class UnsupportedForMessageFormatError(BrokerError): ...
    class PolicyViolationError(BrokerError): ...
    class OutOfOrderSequenceNumberError(BrokerError): ...
    class DuplicateSequenceNumberError(BrokerError): ...
    class InvalidProducerEpochError(BrokerError, FencedError): ...
    class InvalidTxnStateError(BrokerError): ...
    class InvalidProducerIdMappingError(BrokerError): ...
    class InvalidTransactionTimeoutError(BrokerError): ...
    class ConcurrentTransactionsError(BrokerError): ...
    class TransactionCoordinatorFencedError(BrokerError): ...
    class TransactionalIdAuthorizationFailedError(BrokerError): ...
    class SecurityDisabledError(BrokerError): ...
    class OperationNotAttemptedError(BrokerError): ...
    class KafkaStorageError(BrokerError): ...
    class LogDirNotFoundError(BrokerError): ...
    class SaslAuthenticationFailedError(BrokerError, AuthenticationError): ...
    class UnknownProducerIdError(BrokerError): ...
    class ReassignmentInProgressError(BrokerError): ...
    class DelegationTokenAuthDisabledError(BrokerError): ...
    class DelegationTokenNotFoundError(BrokerError): ...
    class DelegationTokenOwnerMismatchError(BrokerError): ...
    class DelegationTokenRequestNotAllowedError(BrokerError): ...
    class DelegationTokenAuthorizationFailedError(BrokerError): ...
    class DelegationTokenExpiredError(BrokerError): ...
    class InvalidPrincipalTypeError(BrokerError): ...
    class NonEmptyGroupError(BrokerError): ...
    class GroupIdNotFoundError(BrokerError): ...
    class FetchSessionIdNotFoundError(BrokerError): ...
    class InvalidFetchSessionEpochError(BrokerError): ...
    class ListenerNotFoundError(BrokerError): ...
    class TopicDeletionDisabledError(BrokerError): ...
    class FencedLeaderEpochError(BrokerError): ...
    class UnknownLeaderEpochError(BrokerError): ...
    class UnsupportedCompressionTypeError(BrokerError): ...
    class StaleBrokerEpochError(BrokerError): ...
    class OffsetNotAvailableError(BrokerError): ...
    class MemberIdRequiredError(BrokerError): ...
    class PreferredLeaderNotAvailableError(BrokerError): ...
    class GroupMaxSizeReachedError(BrokerError): ...
    class FencedInstanceIdError(BrokerError, FencedError): ...
    class EligibleLeadersNotAvailableError(BrokerError): ...
    class ElectionNotNeededError(BrokerError): ...
    class NoReassignmentInProgressError(BrokerError): ...
    class GroupSubscribedToTopicError(BrokerError): ...
    class InvalidRecordError(BrokerError): ...
    class UnstableOffsetCommitError(BrokerError): ...
    class ThrottlingQuotaExceededError(BrokerError): ...
    class ProducerFencedError(BrokerError, FencedError): ...
    class ResourceNotFoundError(BrokerError): ...
    class DuplicateResourceError(BrokerError): ...
    class UnacceptableCredentialError(BrokerError): ...
    class InconsistentVoterSetError(BrokerError): ...
    class InvalidUpdateVersionError(BrokerError): ...
    class FeatureUpdateFailedError(BrokerError): ...
    class PrincipalDeserializationFailureError(BrokerError): ...
    class SnapshotNotFoundError(BrokerError): ...
    class PositionOutOfRangeError(BrokerError): ...
    class UnknownTopicIdError(BrokerError): ...
    class DuplicateBrokerRegistrationError(BrokerError): ...
    class BrokerIdNotRegisteredError(BrokerError): ...
    class InconsistentTopicIdError(BrokerError): ...
    class InconsistentClusterIdError(BrokerError): ...
    class TransactionalIdNotFoundError(BrokerError): ...
    class FetchSessionTopicIdError(BrokerError): ...
    class IneligibleReplicaError(BrokerError): ...
    class NewLeaderElectedError(BrokerError): ...
    class OffsetMovedToTieredStorageError(BrokerError): ...
    class FencedMemberEpochError(BrokerError): ...
    class UnreleasedInstanceIdError(BrokerError): ...
    class UnsupportedAssignorError(BrokerError): ...
    class StaleMemberEpochError(BrokerError): ...
    class MismatchedEndpointTypeError(BrokerError): ...
    class UnsupportedEndpointTypeError(BrokerError): ...
    class UnknownControllerIdError(BrokerError): ...
    class UnknownSubscriptionIdError(BrokerError): ...
    class TelemetryTooLargeError(BrokerError): ...
    class InvalidRegistrationError(BrokerError): ...
    class TransactionAbortableError(BrokerError): ...
    class InvalidRecordStateError(BrokerError): ...
    class ShareSessionNotFoundError(BrokerError): ...
    class InvalidShareSessionEpochError(BrokerError): ...
    class FencedStateEpochError(BrokerError): ...
    class InvalidVoterKeyError(BrokerError): ...
    class DuplicateVoterError(BrokerError): ...
    class VoterNotFoundError(BrokerError): ...
    class InvalidRegularExpressionError(BrokerError): ...
    class RebootstrapRequiredError(BrokerError): ...
    class StreamsInvalidTopologyError(BrokerError): ...
    class StreamsInvalidTopologyEpochError(BrokerError): ...
    class StreamsTopologyFencedError(BrokerError): ...
    class ShareSessionLimitReachedError(BrokerError): ...
    class GroupDeletionFailedError(BrokerError): ...
    class StreamsTopologyDescriptionUpdateFailedError(BrokerError): ...
    class ControllerIdNotRegisteredError(BrokerError): ...
