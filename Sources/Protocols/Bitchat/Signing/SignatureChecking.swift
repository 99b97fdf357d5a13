import Crypto

/// Who says whether a signature holds. A node computes it each time (`ComputedSignatures`); where many nodes in one process get the
/// same bytes, one answer does for all.
public protocol SignatureChecking: Sendable {
  /// Whether the owner of the key signed exactly these bytes.
  func holds(_ signature: ArraySlice<UInt8>, of message: [UInt8], by key: Ed25519.PublicKey) -> Bool

  /// A node of this process has made a signature, which therefore holds.
  func learn(_ signature: [UInt8], of message: [UInt8], by key: Ed25519.PublicKey)
}

extension SignatureChecking {
  public func learn(_ signature: [UInt8], of message: [UInt8], by key: Ed25519.PublicKey) {}
}

/// Each answer is computed.
public struct ComputedSignatures: SignatureChecking {
  public init() {}

  public func holds(_ signature: ArraySlice<UInt8>, of message: [UInt8], by key: Ed25519.PublicKey) -> Bool {
    key.verify(signature, of: message)
  }
}
