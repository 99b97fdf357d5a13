import Common

/// The handshake at the beginning of an RFCOMM link, for either side.
///
/// The client sends one octet: 00 if it has beacons, 01 if not. The server answers with 00. Then the link is a byte
/// stream; bytes that arrive together with the octet belong to it. Old phones send text instead, and are recognised by
/// its first character. Facts: thali.md section 5.
public struct RFCOMMHandshake: Sendable {
  public enum Role: Hashable, Sendable {
    /// This machine made the link.
    ///
    /// - Parameter hasBeacons: whether this machine announces itself.
    case client(hasBeacons: Bool)
    case server
  }

  public enum Event: Hashable, Sendable {
    /// The link is open.
    case opened
    /// Bytes arrived.
    case received([UInt8])
    /// `deadline` is reached.
    case timer
  }

  /// The output of the handshake, in order.
  public enum Intent: Hashable, Sendable {
    case send([UInt8])
    /// The handshake is complete. `rest` is the beginning of the stream.
    ///
    /// - Parameter peerHasBeacons: whether the client has beacons to fetch; nil for a client.
    case established(peerHasBeacons: Bool?, rest: ArraySlice<UInt8>)
    case close(Refusal)
  }

  /// Reason why a link is closed.
  public enum Refusal: Int, CaseIterable, Hashable, Sendable {
    /// The first octet is not defined by the protocol.
    case badOctet
    /// The peer is a phone with the library of 2016 to 2018, which begins with `thali_handshake` or JSON.
    case oldPhone
    /// Nothing arrived within 10 s.
    case timeout

    /// The name of the reason's counter.
    public var name: String {
      switch self {
      case .badOctet: "BadHandshakes"
      case .oldPhone: "OldPhones"
      case .timeout: "HandshakeTimeouts"
      }
    }
  }

  private enum State: Sendable {
    case created
    case waiting(until: Instant)
    case over
  }

  private static let yes: UInt8 = 0
  private static let no: UInt8 = 1
  private static let oldPhoneMarks = [UInt8(ascii: "t"), UInt8(ascii: "{")]

  private let role: Role
  private var state = State.created

  public init(role: Role) { self.role = role }

  /// When `Event.timer` is due; nil before the link is open and after the handshake.
  public var deadline: Instant? {
    guard case .waiting(let until) = state else { return nil }
    return until
  }

  /// Handles an event of the handshake. No intent follows `established` or `close`.
  public mutating func handle(_ event: Event, at now: Instant) -> [Intent] {
    switch (state, event) {
    case (.created, .opened):
      state = .waiting(until: now.advanced(by: Limits.handshakeTime))
      guard case .client(let hasBeacons) = role else { return [] }
      return [.send([hasBeacons ? Self.yes : Self.no])]
    case (.waiting(let until), .timer):
      guard until <= now else { return [] }
      return close(.timeout)
    case (.waiting, .received(let bytes)):
      guard let octet = bytes.first else { return [] }
      return handle(octet, bytes.dropFirst())
    default: return []
    }
  }

  private mutating func handle(_ octet: UInt8, _ rest: ArraySlice<UInt8>) -> [Intent] {
    if Self.oldPhoneMarks.contains(octet) { return close(.oldPhone) }
    switch (role, octet) {
    case (.client, Self.yes):
      state = .over
      return [.established(peerHasBeacons: nil, rest: rest)]
    case (.server, Self.yes), (.server, Self.no):
      state = .over
      return [.send([Self.yes]), .established(peerHasBeacons: octet == Self.yes, rest: rest)]
    default: return close(.badOctet)
    }
  }

  private mutating func close(_ refusal: Refusal) -> [Intent] {
    state = .over
    return [.close(refusal)]
  }
}

/// The service record of the RFCOMM profile. Facts: thali.md section 5.
public enum RFCOMMRecord {
  public static let name = "Thali_Bluetooth"
  /// The service UUID of the document of 2016. A server registers it, and a client looks it up first.
  public static let service = BluetoothUUID(high: 0x0BBF_C6EF_14CC_4AB2, low: 0xAF63_B92E_8872_27AE)
  /// The service UUID that phones registered. A client looks it up second.
  public static let phone = BluetoothUUID(high: 0xFA87_C0D0_AFAC_11DE, low: 0x8A39_0800_200C_9A66)
}
