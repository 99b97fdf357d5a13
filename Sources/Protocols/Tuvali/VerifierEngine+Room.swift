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

    /// The error for a wallet whose frame of `size` bytes finds no room; nil where there is room. What a frame inflates to may
    /// still be too much for the room when it is here.
    func refusal(of size: Int) -> TuvaliError? {
      guard credentials <= 0 || bytes < size else { return nil }
      return TuvaliError(.verifierUnknown, .limitExceeded, "There is no room for one more credential.")
    }

    /// What is left of it when frames of so many bytes have come.
    func without(_ claims: [Int]) -> Room {
      guard self != .boundless else { return self }
      return Room(credentials: credentials - claims.count, bytes: claims.reduce(bytes) { $0 - $1 })
    }
  }
}
