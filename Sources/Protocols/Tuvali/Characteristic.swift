import Common

/// The characteristics of a Tuvali service. Facts: tuvali.md section 3.
public enum Characteristic: CaseIterable, Hashable, Sendable {
  /// Declared by the originals and never used.
  case requestSize, request
  /// Wallet to verifier: nonce and public key.
  case identify
  /// Wallet to verifier: size of the encrypted frame.
  case responseSize
  /// Wallet to verifier: one chunk.
  case submitResponse
  /// Wallet to verifier: 0x01 asks for a report.
  case transferReportRequest
  /// Verifier to wallet: what is missing.
  case transferReportResponse
  /// Verifier to wallet: 0x00 accepted, 0x01 rejected.
  case verificationStatus
  /// Verifier to wallet: 0x01 asks the wallet to disconnect.
  case disconnect

  /// How a value of the characteristic travels.
  public enum Direction: Hashable, Sendable { case unused, toVerifier, toWallet }

  public var direction: Direction {
    switch self {
    case .requestSize, .request: .unused
    case .identify, .responseSize, .submitResponse, .transferReportRequest: .toVerifier
    case .transferReportResponse, .verificationStatus, .disconnect: .toWallet
    }
  }
}
