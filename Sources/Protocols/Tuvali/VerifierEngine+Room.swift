extension VerifierEngine {
  /// What the service can keep of what wallets bring.
  public struct Room: Hashable, Sendable {
    /// How many credentials more.
    public var credentials: Int
    /// How many bytes of credentials more.
    public var bytes: Int

    public init(credentials: Int, bytes: Int) {
      self.credentials = credentials
      self.bytes = bytes
    }

    public static let boundless = Room(credentials: .max, bytes: .max)

    /// Whether there is no room for any credential.
    public var isNone: Bool { credentials <= 0 || bytes <= 0 }

    /// Whether there is room for a frame of `size` bytes. What it inflates to may still be too much when it is here.
    func holds(_ size: Int) -> Bool { credentials > 0 && bytes >= size }

    /// What is left of it when frames of so many bytes have come.
    func without(_ claims: [Int]) -> Room {
      guard self != .boundless else { return self }
      return Room(credentials: credentials - claims.count, bytes: claims.reduce(bytes) { $0 - $1 })
    }
  }
}

extension VerifierEngine.Refusal {
  /// The error that ends a session.
  func error(_ configuration: VerifierEngine.Configuration) -> TuvaliError {
    switch self {
    case .wrongCode: .wrongCode
    case .busy:
      TuvaliError(
        .verifierUnknown, .busy, "All \(configuration.visitors) session slots are in use. The wallet may try again.")
    case .full: TuvaliError(.verifierUnknown, .noCapacity, "There is no capacity for one more credential.")
    }
  }
}
