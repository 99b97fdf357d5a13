import Crypto

extension Packet {
  /// Signs the packet with `key`, which must be the sender's own. Throws the errors of `encoded`.
  ///
  /// TTL and answer flag may change afterwards, all other fields must not.
  ///
  /// - Parameter checker: is notified of the signature.
  public func signed(
    with key: Ed25519.PrivateKey, telling checker: some SignatureChecking = ComputedSignatures()
  ) throws(PacketError) -> Packet {
    let preimage = try signingPreimage()
    let signature = key.sign(preimage)
    checker.learn(signature, of: preimage, by: key.publicKey)
    var signed = self
    signed.signature = signature
    return signed
  }
}
