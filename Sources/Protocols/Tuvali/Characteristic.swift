import Common

/// A characteristic of a Tuvali service. Facts: tuvali.md section 3.
public enum Characteristic: CaseIterable, Hashable, Sendable {
  /// Declared by the originals and never used.
  case requestSize, request
  /// Wallet to verifier: nonce and public key, `Identify`.
  case identify
  /// Wallet to verifier: size of the encrypted frame, `ResponseSize`.
  case responseSize
  /// Wallet to verifier: one `Chunk`.
  case submitResponse
  /// Wallet to verifier: request for a report, `TransferReportRequest`.
  case transferReportRequest
  /// Verifier to wallet: missing chunks, `TransferReport`.
  case transferReportResponse
  /// Verifier to wallet: verdict, `VerificationStatus`.
  case verificationStatus
  /// Verifier to wallet: `DisconnectRequest`.
  case disconnect

  /// Direction of the values of a characteristic.
  public enum Direction: Hashable, Sendable { case unused, toVerifier, toWallet }

  public var direction: Direction {
    switch self {
    case .requestSize, .request: .unused
    case .identify, .responseSize, .submitResponse, .transferReportRequest: .toVerifier
    case .transferReportResponse, .verificationStatus, .disconnect: .toWallet
    }
  }
}
