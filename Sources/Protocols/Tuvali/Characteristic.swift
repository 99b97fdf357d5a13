import Common

/// A characteristic of a Tuvali service. Facts: tuvali.md section 3.
public enum Characteristic: CaseIterable, Hashable, Sendable {
  /// The originals declare these two and never use them.
  case requestSize, request
  /// Wallet to verifier: nonce and public key, `Identify`.
  case identify
  /// Wallet to verifier: the size of the encrypted frame, `ResponseSize`.
  case responseSize
  /// Wallet to verifier: one `Chunk`.
  case submitResponse
  /// Wallet to verifier: a question which chunks are missing, `TransferReportRequest`.
  case transferReportRequest
  /// Verifier to wallet: which chunks are missing, `TransferReport`.
  case transferReportResponse
  /// Verifier to wallet: the verdict, `VerificationStatus`.
  case verificationStatus
  /// Verifier to wallet: `DisconnectRequest`.
  case disconnect

  /// From which side to which a value of a characteristic goes.
  public enum Direction: Hashable, Sendable { case unused, toVerifier, toWallet }

  public var direction: Direction {
    switch self {
    case .requestSize, .request: .unused
    case .identify, .responseSize, .submitResponse, .transferReportRequest: .toVerifier
    case .transferReportResponse, .verificationStatus, .disconnect: .toWallet
    }
  }
}
