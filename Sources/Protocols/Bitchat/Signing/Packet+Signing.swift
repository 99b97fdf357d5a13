import Crypto

extension Packet {
  /// The packet with the signature of `key`, which must be the sender's own. Throws what `encoded` throws.
  ///
  /// Time to live and the mark of an answer may change afterwards, and nothing else.
  ///
  /// - Parameter checker: is told of the signature.
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
