/// The journal messages of the daemons that use the network, for `earshot report`, which does not link their targets.
enum DaemonMessages {
  /// The names of the messages, by message ID. Messages that all daemons share are not listed.
  static let names: [String: String] = [
    "8f0e52d6c1b94a7791c6e3ad57f4b208": "PresenceReady",
    "c4a7d90b3e2f48d6b51e08f6729ac3d1": "PresenceStoreFailed",
    "1b6c38e5f7d24f0a8e92d4b07c5613ea": "PresenceNetworkFailed",
    "e93d5a1f60c74b2c97b8f1d42ea0657c": "PresencePaused",
    "72c0b5e86d0f4b6d9a1fe0c83d5b4e97": "PresenceRenewalFailed",
    "5d0f7be94a1c4c36a2e88f6b93d1705e": "PresenceOldPhone",
    "6d0c3e5fb1a84f0b9c63e1d2a7f4580e": "SocialListening",
    "c1f7a9244d3e4b7f8e05b69a3d18c27b": "SocialNotListening",
    "2b98e0d75ac14c6fb3f1470d9e6a8c35": "SocialStoreTrouble",
    "f05d71c8b2e94a3a96c4d8e17b3f6290": "SocialStoreBack",
    "8ea3c64f017d49b5a2d95e8b1c70f4d6": "SocialStoreDamaged",
    "10ce244d3db04f8c9d170151107dec4e": "SocialCertificate",
    "87343e173d9f44bab3012bb20fa72d2f": "SocialNoCertificate",
    "0d5b7e0c3f9a4c5f8a36b1f2e47d9c60": "UplinkProxyLost",
    "a8c41d6f2b7e4d0c9e15f3760bd284ea": "UplinkProxyFound",
    "6e92f0b4d7c34a18b3f1c85e29a06d7b": "UplinkStoreFailed",
    "f47a2c9e815b4d36a0d8e6135bc7f092": "UplinkWiped",
  ]
}
