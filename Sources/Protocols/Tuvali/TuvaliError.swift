import Common

/// Reason why a transfer failed. The code is that of the original library, or the nearest one; the reason
/// distinguishes errors that share a code in that library. Facts: tuvali.md section 7, "Error codes".
public struct TuvaliError: CodedError, Hashable {
  /// Codes of the original library: TVW from the wallet, TVV from the verifier, TUV from neither.
  public enum Code: String, CaseIterable, Hashable, Sendable {
    case unknown = "TUV_UNK_001"
    case walletInvalidURI = "TVW_CON_001"
    case walletMTU = "TVW_CON_002"
    case walletServiceNotFound = "TVW_CON_003"
    case walletReport = "TVW_REP_001"
    case walletUnknown = "TVW_UNK_001"
    case walletState = "TVW_UNK_002"
    case walletTransfer = "TVW_UNK_003"
    case verifierMTU = "TVV_CON_001"
    case verifierSize = "TVV_TRA_001"
    case verifierTooManyMissing = "TVV_TRA_002"
    case verifierUnknown = "TVV_UNK_001"
    case verifierState = "TVV_UNK_002"
    case verifierTransfer = "TVV_UNK_003"
  }

  public enum Reason: Hashable, Sendable {
    /// The peer sent something that the protocol forbids.
    case protocolViolation
    /// A limit of this implementation or of the protocol was exceeded.
    case limitExceeded
    /// A local program requested something impossible.
    case invalidArgument
    /// The peer or a program did not act within a time limit.
    case timeout
    /// The link to the peer was lost.
    case peerLost
    /// All session slots of the verifier are in use.
    case busy
    /// The verifier has no capacity for one more credential.
    case noCapacity
    /// The credential was encrypted for a QR code that is no longer shown, or for another verifier.
    case wrongCode
    /// The peer ended the transfer, or disconnected.
    case peerEnded
    /// A local program ended the transfer.
    case stopped
    /// The radio of this machine cannot perform an operation now.
    case radioRefused
  }

  public let errorCode: Code
  public let reason: Reason
  public let sentence: String

  public var code: String { errorCode.rawValue }

  public init(_ code: Code, _ reason: Reason, _ sentence: String) {
    self.errorCode = code
    self.reason = reason
    self.sentence = sentence
  }
}
