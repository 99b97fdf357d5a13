import Common

/// The states of a session, on either side.
///
/// | request | opened | provisional | established | suspended | quitting, closed |
/// |---|---|---|---|---|---|
/// | echo | yes | yes | yes | | |
/// | auth | | yes | for others | | |
/// | other commands, blob, pause | | | yes | | |
/// | login | yes | | | | |
/// | resume | | | | yes | |
/// | quit | yes | yes | yes | yes | |
public enum SessionState: String, Sendable, CaseIterable {
  /// No login has been acknowledged yet.
  case opened
  /// The user has logged in for the first time, and its authentication key is not stored yet.
  case provisional
  case established
  /// The session is paused: in the server from the receipt of the pause, in the client from its acknowledgement.
  case suspended
  /// A quit waits for its acknowledgement.
  case quitting
  case closed

  /// The kinds of requests of a client.
  public enum Ask: Hashable, Sendable {
    case command(String)
    case login, pause, quit, resume, blob

    public init?(_ pdu: PDU, command: Command?) {
      switch pdu {
      case .exec: self = .command(command?.arguments.first ?? "")
      case .login: self = .login
      case .pause: self = .pause
      case .quit: self = .quit
      case .resume: self = .resume
      case .blob: self = .blob
      case .acknowledge, .redirect: return nil
      }
    }
  }

  /// Whether a server in this state executes the request.
  public func accepts(_ ask: Ask) -> Bool {
    switch self {
    case .opened: ask == .command("echo") || ask == .login || ask == .quit
    case .provisional: ask == .command("echo") || ask == .command("auth") || ask == .quit
    case .established: ask != .login && ask != .resume
    case .suspended: ask == .resume || ask == .quit
    case .quitting, .closed: false
    }
  }
}

/// Reason why a connection between client and server ends.
public enum CloseReason: Hashable, Sendable {
  /// The peer or a program has quit.
  case quit
  /// The connection below the session was lost or closed by the peer.
  case disconnected
  case segment(SegmentError)
  case pdu(PDUError)
  /// The first frame is not the 32 octets of a key.
  case badKey
  /// The client's ephemeral key is that of an open session or of an accepted login: the connection is a replay.
  case keyUsed
  case loginRefused
  /// The counter values of the key are used up, or the server redirects its clients.
  case redirected
  /// The client reads so slowly that more output waits than the limit allows.
  case slow
  case noKey, noLogin, idle, suspendedTooLong
  /// The user has a newer session, and exceeds its maximum number.
  case tooMany
  /// A session whose login is not confirmed, or a connection without a login, was closed in favour of another
  /// connection.
  case displaced

  /// Whether waiting output is dropped. Otherwise the connection ends when it is written.
  public var dropsOutput: Bool { self == .slow || self == .disconnected || self == .displaced }
}

/// The last PDUs of a session, without their contents.
public struct Trace: Sendable {
  private struct Entry: Sendable {
    let isReceived: Bool
    let identifier: PDU.Identifier
    let octets: Int
    let result: ResultCode?
  }

  private var entries: [Entry] = []
  private var size: Int
  private var hidden: Set<PDU.Identifier> = []

  public init(size: Int = 32) { self.size = size }

  public mutating func note(received: Bool, _ pdu: PDU, octets: Int) {
    guard !hidden.contains(pdu.identifier) else { return }
    if entries.count >= size { entries.removeFirst(entries.count - size + 1) }
    var result: ResultCode?
    if case .acknowledge(let acknowledgement) = pdu { result = acknowledgement.result }
    entries.append(Entry(isReceived: received, identifier: pdu.identifier, octets: octets, result: result))
  }

  /// Executes `trace [flush]`, `trace filter ID...`, `trace unfilter ID...` and `trace resize RINGSIZE`.
  mutating func execute(_ arguments: [String]) -> StoreOutcome {
    var outcome = StoreOutcome()
    switch arguments.first ?? "flush" {
    case "flush" where arguments.count < 2:
      let lines = entries.map { entry in
        let result = entry.result.map { " \($0)" } ?? ""
        return "\(entry.isReceived ? "<" : ">") \(entry.identifier) \(entry.octets)\(result)\n"
      }
      outcome.data = Array(lines.joined().utf8)
      entries.removeAll()
    case "filter" where arguments.count > 1, "unfilter" where arguments.count > 1:
      let identifiers = arguments.dropFirst().map { UInt8(digits: $0).flatMap(PDU.Identifier.init(rawValue:)) }
      guard !identifiers.contains(nil) else { return Self.usage }
      if arguments[0] == "filter" {
        hidden.formUnion(identifiers.compactMap { $0 })
      } else {
        hidden.subtract(identifiers.compactMap { $0 })
      }
    case "resize" where arguments.count == 2:
      guard let size = Int(digits: arguments[1]), Limits.trace.contains(size) else { return Self.usage }
      self.size = size
      entries.removeFirst(max(0, entries.count - size))
    default: return Self.usage
    }
    return outcome
  }

  private static var usage: StoreOutcome {
    let sizes = "\(Limits.trace.lowerBound)-\(Limits.trace.upperBound)"
    return StoreOutcome(
      Refusal(.illFormatted, "usage: trace [flush | filter ID... | unfilter ID... | resize \(sizes)]"))
  }
}
