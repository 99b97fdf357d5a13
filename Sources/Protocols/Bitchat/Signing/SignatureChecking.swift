import Crypto

/// Verifies signatures. A node computes each result (`ComputedSignatures`). With many nodes in one process, a shared
/// implementation can reuse results.
public protocol SignatureChecking: Sendable {
  /// Whether the owner of the key signed these bytes.
  func holds(_ signature: ArraySlice<UInt8>, of message: [UInt8], by key: Ed25519.PublicKey) -> Bool

  /// Reports a signature made by a node of this process, which is therefore valid.
  func learn(_ signature: [UInt8], of message: [UInt8], by key: Ed25519.PublicKey)
}

extension SignatureChecking {
  public func learn(_ signature: [UInt8], of message: [UInt8], by key: Ed25519.PublicKey) {}
}

/// Computes each result.
public struct ComputedSignatures: SignatureChecking {
  public init() {}

  public func holds(_ signature: ArraySlice<UInt8>, of message: [UInt8], by key: Ed25519.PublicKey) -> Bool {
    key.verify(signature, of: message)
  }
}
