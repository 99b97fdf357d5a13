extension VerifierEngine {
  /// Remaining capacity of the service for credentials.
  public struct Room: Hashable, Sendable {
    /// Number of credentials.
    public var credentials: Int
    /// Bytes of credentials.
    public var bytes: Int

    public init(credentials: Int, bytes: Int) {
      self.credentials = credentials
      self.bytes = bytes
    }

    public static let boundless = Room(credentials: .max, bytes: .max)

    /// Whether there is no capacity for any credential.
    public var isNone: Bool { credentials <= 0 || bytes <= 0 }

    /// Whether there is capacity for a frame of `size` bytes. Its inflated content may still exceed it.
    func holds(_ size: Int) -> Bool { credentials > 0 && bytes >= size }

    /// Returns the remaining capacity after frames of these sizes.
    func without(_ claims: [Int]) -> Room {
      guard self != .boundless else { return self }
      return Room(credentials: credentials - claims.count, bytes: claims.reduce(bytes) { $0 - $1 })
    }
  }
}

extension VerifierEngine.Refusal {
  /// Error that ends a session.
  func error(_ configuration: VerifierEngine.Configuration) -> TuvaliError {
    switch self {
    case .wrongCode: .wrongCode
    case .busy:
      TuvaliError(
        .verifierUnknown, .busy, "All \(configuration.visitors) session slots are in use. The wallet may try again.")
    case .full: TuvaliError(.verifierUnknown, .noCapacity, "There is no capacity for another credential.")
    }
  }
}
