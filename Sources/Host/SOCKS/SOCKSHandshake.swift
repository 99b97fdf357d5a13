/// The client's side of SOCKS version 5 (RFC 1928) with a user name and a password (RFC 1929), up to the first byte of
/// the target. It has no socket and no clock: the owner hands it what the proxy sent, and sends what it returns.
///
/// The client offers the method *user name and password* only. A proxy such as `tor` uses separate circuits for
/// different user names. The host is sent as a name, so that only the proxy looks it up.
///
/// | message | bytes |
/// |---|---|
/// | greeting | 05, number of methods 01, method 02 |
/// | its answer | 05, method |
/// | login | 01, length, user name, length, password |
/// | their answer | 01, status; 00 is success |
/// | request | 05, command 01, 00, address type 03, length, host, port (big-endian) |
/// | its answer | 05, reply code, 00, address type, address, port |
public struct SOCKSHandshake: Sendable {
  /// The next step of the client.
  public enum Step: Hashable, Sendable {
    /// Send these bytes to the proxy.
    case send([UInt8])
    /// The proxy has connected to the target. The bytes are the first ones of the target, and may be none.
    case connected(rest: [UInt8])
    /// The handshake is over. Close the connection.
    case failed(SOCKSError)
  }

  private enum Phase { case greeted, authenticating, requested, over }

  private static let version: UInt8 = 5
  private static let passwordVersion: UInt8 = 1
  private static let passwordMethod: UInt8 = 2
  private static let connect: UInt8 = 1

  /// The first bytes for the proxy.
  public let greeting: [UInt8] = [version, 1, passwordMethod]

  private let target: SOCKSTarget
  private let login: SOCKSLogin
  private var phase = Phase.greeted
  private var unread: [UInt8] = []

  public init(to target: SOCKSTarget, as login: SOCKSLogin) {
    (self.target, self.login) = (target, login)
  }

  /// Takes bytes of the proxy, in portions of any size. Nothing follows after `connected` and `failed`.
  public mutating func receive(_ bytes: [UInt8]) -> [Step] {
    guard phase != .over else { return [] }
    unread += bytes
    var steps: [Step] = []
    do throws(SOCKSError) {
      while let step = try next() { steps.append(step) }
    } catch {
      steps.append(.failed(error))
      end()
    }
    return steps
  }

  /// The step for the next complete message; nil if more bytes are needed.
  private mutating func next() throws(SOCKSError) -> Step? {
    switch phase {
    case .greeted:
      guard let method = try takePair(Self.version, else: .otherVersion) else { return nil }
      guard method == Self.passwordMethod else { throw method == 0xFF ? .noPasswords : .otherMethod(method) }
      phase = .authenticating
      return .send([Self.passwordVersion] + Self.prefixed(login.user) + Self.prefixed(login.password))
    case .authenticating:
      guard let status = try takePair(Self.passwordVersion, else: .malformed) else { return nil }
      guard status == 0 else { throw .passwordRefused }
      phase = .requested
      let port = [UInt8(target.port >> 8), UInt8(target.port & 0xFF)]
      return .send([Self.version, Self.connect, 0, 3] + Self.prefixed(target.host) + port)
    case .requested:
      guard let length = try answerLength() else { return nil }
      let rest = Array(unread[length...])
      end()
      return .connected(rest: rest)
    case .over: return nil
    }
  }

  /// Takes a message of two bytes, whose first byte is the version.
  private mutating func takePair(_ version: UInt8, else error: SOCKSError) throws(SOCKSError) -> UInt8? {
    guard let first = unread.first else { return nil }
    guard first == version else { throw error }
    guard unread.count >= 2 else { return nil }
    let second = unread[1]
    unread.removeFirst(2)
    return second
  }

  /// The length of the answer to the request; nil if it is not complete. The reply code is checked first: some proxies
  /// close the connection behind it.
  private func answerLength() throws(SOCKSError) -> Int? {
    guard let first = unread.first else { return nil }
    guard first == Self.version else { throw .otherVersion }
    guard unread.count >= 2 else { return nil }
    guard unread[1] == 0 else { throw SOCKSError(reply: unread[1]) }
    guard unread.count >= 5 else { return nil }
    let address: Int
    switch unread[3] {
    case 1: address = 4
    case 3: address = 1 + Int(unread[4])
    case 4: address = 16
    default: throw .malformed
    }
    let length = 4 + address + 2
    return unread.count >= length ? length : nil
  }

  private mutating func end() { (phase, unread) = (.over, []) }

  private static func prefixed(_ text: String) -> [UInt8] { [UInt8(clamping: text.utf8.count)] + text.utf8 }
}

/// The host and the port that a proxy connects to.
public struct SOCKSTarget: Hashable, Sendable {
  /// Maximum bytes of a host's name, and of a part of it (RFC 1035 section 2.3.4).
  private static let (nameLimit, labelLimit) = (253, 63)

  public let host: String
  public let port: UInt16

  /// Nil unless the host is the name of a host, in ASCII, and the port is not 0. A numeric address is not a name.
  public init?(host: String, port: UInt16) {
    guard port != 0, Self.isName(host) else { return nil }
    (self.host, self.port) = (host, port)
  }

  /// Whether a text is the name of a host. The last part of a name is not a number (RFC 3696 section 2), so that an
  /// IPv4 address is not one.
  public static func isName(_ text: String) -> Bool {
    let labels = text.utf8.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
    guard text.utf8.count <= nameLimit, let last = labels.last, !last.allSatisfy(isDigit) else { return false }
    return labels.allSatisfy { label in
      (1...labelLimit).contains(label.count) && label.first != UInt8(ascii: "-") && label.last != UInt8(ascii: "-")
        && label.allSatisfy { isDigit($0) || isLetter($0) || $0 == UInt8(ascii: "-") }
    }
  }

  private static func isDigit(_ byte: UInt8) -> Bool { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte) }

  private static func isLetter(_ byte: UInt8) -> Bool { (UInt8(ascii: "a")...UInt8(ascii: "z")).contains(byte | 0x20) }
}

/// The user name and the password for a proxy. For `tor`, connections with different ones are isolated from each other.
public struct SOCKSLogin: Hashable, Sendable {
  public let user: String
  public let password: String

  /// Nil unless each of them has 1 to 255 bytes of UTF-8.
  public init?(user: String, password: String) {
    guard [user, password].allSatisfy({ (1...255).contains($0.utf8.count) }) else { return nil }
    (self.user, self.password) = (user, password)
  }
}

extension SOCKSLogin: CustomStringConvertible {
  /// Without the password.
  public var description: String { "the login of a proxy" }
}
