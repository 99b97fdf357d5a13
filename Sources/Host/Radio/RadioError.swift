import Common

/// An error of a radio operation, with a sentence for a person.
public enum RadioError: CodedError, Equatable {
  case advertisementTooLong(bytes: Int, limit: Int)
  /// The radio does not support the operation.
  case notSupported(String)
  /// The adapter or the Bluetooth service is missing, or the adapter is off; the sentence states which.
  case notReady(String)
  /// The peer went out of range, disconnected, or did not answer.
  case peerLost(String)
  /// The Bluetooth service refused; its message is appended.
  case refused(String)
  case timedOut(String)
  /// Other advertisements occupied all slots for this time.
  case noSlot(after: Duration)

  public var code: String {
    switch self {
    case .advertisementTooLong: "AdvertisementTooLong"
    case .notSupported: "NotSupported"
    case .notReady: "NotReady"
    case .peerLost: "PeerLost"
    case .refused: "Refused"
    case .timedOut, .noSlot: "Timeout"
    }
  }

  public var sentence: String {
    switch self {
    case .advertisementTooLong(let bytes, let limit):
      "The advertisement needs \(bytes) bytes; the limit is \(limit). Choose a shorter name."
    case .notSupported(let what): "This radio cannot \(what)."
    case .notReady(let why), .peerLost(let why): why
    case .refused(let words): "The Bluetooth service refused: \(words)"
    case .noSlot(let time):
      "No advertising slot was free for \(time.components.seconds) s: other services' advertisements have priority."
    case .timedOut(let what): "The Bluetooth service did not answer the request in time: \(what)."
    }
  }
}

/// The answer of a GATT server to a request that it refuses; the raw value is the ATT error code.
public enum ATTError: UInt8, Error, Sendable {
  case invalidOffset = 0x07
  case invalidLength = 0x0D
  case unlikely = 0x0E
  case insufficientResources = 0x11
  /// Application error: the server is busy with another client.
  case busy = 0x80
  /// Application error: the server has no capacity for the client's data.
  case noCapacity = 0x81
  case writeNotPermitted = 0x03
}
