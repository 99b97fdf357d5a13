import Common

/// What a radio could not do for us.
public enum RadioError: CodedError, Equatable {
  case advertisementTooLong(bytes: Int, limit: Int)
  /// The radio has no way to do this at all.
  case notSupported(String)
  /// No adapter, no Bluetooth service, powered off: the sentence says which.
  case notReady(String)
  /// The peer went out of range, cut the link, or never answered.
  case peerLost(String)
  /// The Bluetooth service refused; its own words are behind it.
  case refused(String)
  case timedOut(String)
  /// Other advertisements had all places on the air for this time.
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
      "The advertisement needs \(bytes) bytes, and \(limit) fit. Choose a shorter name."
    case .notSupported(let what): "This radio cannot \(what)."
    case .notReady(let why), .peerLost(let why): why
    case .refused(let words): "The Bluetooth service refused: \(words)"
    case .noSlot(let time):
      "No place on the air was free for \(time.components.seconds) s: other services' advertisements go first."
    case .timedOut(let what): "The Bluetooth service gave no answer in time to: \(what)."
    }
  }
}

/// What a GATT server answers to a request it does not carry out; the raw value is the ATT error code.
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
