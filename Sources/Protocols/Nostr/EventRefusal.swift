/// Why an event is dropped. Each reason has a counter.
public enum EventRefusal: Int, CaseIterable, Error, Hashable, Sendable {
  // MARK: Any event

  /// The JSON has more than `NostrLimits.eventBytes`.
  case eventTooLong
  /// The JSON is not an event: a member is missing, has another type, or exceeds a limit.
  case malformedEvent
  /// The ID is not the hash of the event.
  case wrongID
  /// The signature is not the author's.
  case wrongSignature
  /// The kind of the event is not one that the subscription requested.
  case wrongKind
  /// The date of the event is before the accepted time window.
  case tooOld
  /// The date of the event is after the accepted time window.
  case tooNew
  /// An event with this ID has already been handled.
  case replayed

  // MARK: Envelopes

  /// The tags of the gift wrap are not those of its form, or name another recipient.
  case wrapTags
  /// The text is encrypted in a dialect that the configuration does not accept (`EnvelopeDialect`).
  case otherForm
  /// The text of the wrap cannot be decrypted with this key.
  case wrapNotOpened
  /// The decrypted text of the wrap is not a seal: not an event, or of another kind.
  case malformedSeal
  /// The seal has tags.
  case sealTags
  /// The ID or the signature of the seal is wrong.
  case sealNotSigned
  /// The author of the seal is not a contact.
  case stranger
  /// The author of the seal is this machine.
  case ownMessage
  /// The text of the seal cannot be decrypted with this key.
  case sealNotOpened
  /// The decrypted text of the seal is not a rumor: not an event, or of another kind.
  case malformedRumor
  /// The rumor has a signature.
  case rumorSigned
  /// The rumor's author is not the author of the seal.
  case otherAuthor
  /// The tags of the rumor are not those of its form, or name another recipient.
  case rumorTags
  /// The rumor has an ID, and it is wrong; or it has none where NIP-17 requires one.
  case rumorID
  /// The private text exceeds `NostrLimits.contentBytes`, or is empty.
  case contentLength

  // MARK: Geohash channels

  /// The tags of a channel's event do not name that channel, or its text or nickname exceeds a limit.
  case malformedChannelEvent

  // MARK: This machine

  /// The envelope was not opened, because too many envelopes arrived, or because too many messages wait for the owner.
  case tooManyEnvelopes
  /// A function of a cryptographic library failed on this machine.
  case failed

  /// The name of the refusal's counter.
  public var name: String {
    switch self {
    case .eventTooLong: "EventsTooLong"
    case .malformedEvent: "MalformedEvents"
    case .wrongID: "WrongEventIDs"
    case .wrongSignature: "WrongSignatures"
    case .wrongKind: "WrongKinds"
    case .tooOld: "EventsTooOld"
    case .tooNew: "EventsInTheFuture"
    case .replayed: "RepeatedEvents"
    case .wrapTags: "WrongWrapTags"
    case .otherForm: "OtherEnvelopeForms"
    case .wrapNotOpened: "WrapsNotOpened"
    case .malformedSeal: "MalformedSeals"
    case .sealTags: "SealsWithTags"
    case .sealNotSigned: "SealsNotSigned"
    case .stranger: "EnvelopesOfStrangers"
    case .ownMessage: "EnvelopesOfOwnKey"
    case .sealNotOpened: "SealsNotOpened"
    case .malformedRumor: "MalformedRumors"
    case .rumorSigned: "RumorsWithSignature"
    case .otherAuthor: "RumorsOfOtherAuthor"
    case .rumorTags: "WrongRumorTags"
    case .rumorID: "WrongRumorIDs"
    case .contentLength: "WrongTextLengths"
    case .malformedChannelEvent: "MalformedChannelEvents"
    case .tooManyEnvelopes: "UnopenedEnvelopes"
    case .failed: "CryptoFailures"
    }
  }

  /// Whether the refusal is the fault of the relay: a relay that checks events would not have delivered this one.
  var isRelayMistake: Bool {
    switch self {
    case .wrongID, .wrongSignature, .wrongKind: true
    default: false
    }
  }
}
