/// Why a proxy has not connected to the target.
public enum SOCKSError: Error, Hashable, Sendable {
  /// The answer has another version than 5: the program is not a proxy of SOCKS 5.
  case otherVersion
  /// The proxy accepts no user name and password.
  case noPasswords
  /// The proxy chose a method that was not offered.
  case otherMethod(UInt8)
  case passwordRefused
  /// An answer has another form than RFC 1928 and RFC 1929 define.
  case malformed
  /// Reply code 1.
  case generalFailure
  /// Reply code 2.
  case notAllowed
  /// Reply code 3.
  case networkUnreachable
  /// Reply code 4.
  case hostUnreachable
  /// Reply code 5.
  case connectionRefused
  /// Reply code 6: for `tor`, the connection was not made in time.
  case expired
  /// Reply code 7.
  case commandNotSupported
  /// Reply code 8.
  case addressNotSupported
  /// A reply code that RFC 1928 does not define.
  case otherReply(UInt8)

  /// - Parameter reply: a reply code other than 0.
  init(reply: UInt8) {
    self =
      switch reply {
      case 1: .generalFailure
      case 2: .notAllowed
      case 3: .networkUnreachable
      case 4: .hostUnreachable
      case 5: .connectionRefused
      case 6: .expired
      case 7: .commandNotSupported
      case 8: .addressNotSupported
      default: .otherReply(reply)
      }
  }

  /// Whether the proxy itself cannot be used. The other errors concern one target.
  public var isOfProxy: Bool {
    switch self {
    case .otherVersion, .noPasswords, .otherMethod, .passwordRefused, .malformed, .commandNotSupported,
      .addressNotSupported:
      true
    case .generalFailure, .notAllowed, .networkUnreachable, .hostUnreachable, .connectionRefused, .expired,
      .otherReply:
      false
    }
  }
}

extension SOCKSError: CustomStringConvertible {
  /// A part of a sentence whose subject is the proxy.
  public var description: String {
    switch self {
    case .otherVersion: "it does not speak SOCKS 5"
    case .noPasswords: "it accepts no user name and password, which keep connections apart"
    case .otherMethod(let method): "it chose authentication method \(method), which was not offered"
    case .passwordRefused: "it refused the user name and the password"
    case .malformed: "its answer is malformed"
    case .generalFailure: "it reported a general failure"
    case .notAllowed: "its rules do not allow the connection"
    case .networkUnreachable: "it cannot reach the network"
    case .hostUnreachable: "it cannot reach the host"
    case .connectionRefused: "the host refused the connection"
    case .expired: "it did not connect in time"
    case .commandNotSupported: "it does not support connections"
    case .addressNotSupported: "it does not support names of hosts"
    case .otherReply(let code): "it refused the connection with code \(code)"
    }
  }
}
