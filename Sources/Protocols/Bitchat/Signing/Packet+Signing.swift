import Crypto

extension Packet {
  /// The packet with the signature of `key`, which must be the sender's own. Throws what `encoded` throws.
  ///
  /// Time to live and the mark of an answer may change afterwards, and nothing else.
  public func signed(with key: Ed25519.PrivateKey) throws(PacketError) -> Packet {
    var signed = self
    signed.signature = key.sign(try signingPreimage())
    return signed
  }
}
