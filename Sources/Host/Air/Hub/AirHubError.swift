import Common

/// The reason why a hub cannot listen.
public enum AirHubError: CodedError, Equatable {
  /// The path is empty, or longer than `limit`, the maximum bytes of a socket name.
  case badPath(path: String, limit: Int)
  case alreadyRunning(path: String)
  case notASocket(path: String)
  case cannotListen(path: String, reason: String)

  public var code: String {
    switch self {
    case .badPath: "BadPath"
    case .alreadyRunning: "AlreadyRunning"
    case .notASocket: "NotASocket"
    case .cannotListen: "CannotListen"
    }
  }

  public var sentence: String {
    switch self {
    case .badPath(let path, let limit):
      "\"\(path)\" cannot be the path of a socket: it must have 1 to \(limit) bytes. Choose another path."
    case .alreadyRunning(let path):
      "A simulated radio already listens at \(path). Use it, or choose another path."
    case .notASocket(let path):
      "\(path) exists and is not a socket. Remove it, or choose another path."
    case .cannotListen(let path, let reason):
      "Cannot listen at \(path): \(reason). Check that its folder exists and is writable."
    }
  }
}
