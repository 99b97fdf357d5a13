import Journal

extension Journal.MessageID {
  static let socialListening = Journal.MessageID(
    "SocialListening", "6d0c3e5fb1a84f0b9c63e1d2a7f4580e", "The social server listens",
    """
    The message names the address. Clients also need the service's public key and nonce: earshot social status shows
    both.
    """)

  static let socialNotListening = Journal.MessageID(
    "SocialNotListening", "c1f7a9244d3e4b7f8e05b69a3d18c27b", "The social server cannot listen at an address",
    """
    The message names the address and the reason. The other addresses are served. Correct Listen= in the section
    [Social] of social.conf, or stop the other program, and restart the service.
    """)

  static let socialStoreTrouble = Journal.MessageID(
    "SocialStoreTrouble", "2b98e0d75ac14c6fb3f1470d9e6a8c35", "The social server cannot store blobs",
    """
    The message gives the reason. Until this is corrected, blobs and commands that write are refused; reading continues.
    Nothing that was acknowledged is lost. If the disk is full, free space; if the limit StoreSize= is reached, remove
    blobs (earshot social rm) and purge them (earshot social gc), or raise the limit.
    """)

  static let socialStoreBack = Journal.MessageID(
    "SocialStoreBack", "f05d71c8b2e94a3a96c4d8e17b3f6290", "The social server stores blobs again",
    """
    The problem of the previous message is solved.
    """)

  static let socialStoreDamaged = Journal.MessageID(
    "SocialStoreDamaged", "8ea3c64f017d49b5a2d95e8b1c70f4d6", "Files of blobs are missing",
    """
    The database knows blobs whose files do not exist in the folder blobs of the state directory. They cannot be read.
    Restore the folder from a backup.
    """)

  static let socialCertificate = Journal.MessageID(
    "SocialCertificate", "10ce244d3db04f8c9d170151107dec4e", "The social server uses a certificate",
    """
    The message names the file. The server presents the certificate to clients of wss: that connect from now on.
    """)

  static let socialNoCertificate = Journal.MessageID(
    "SocialNoCertificate", "87343e173d9f44bab3012bb20fa72d2f", "The certificate of the social server cannot be used",
    """
    The message gives the reason, and states whether an earlier certificate stays in use. Correct Certificate= and
    CertificateKey= in the section [Social] of social.conf, or the files, and reload: systemctl reload earshot-sociald.
    """)

  static let social: [Journal.MessageID] = [
    .socialListening, .socialNotListening, .socialStoreTrouble, .socialStoreBack, .socialStoreDamaged,
    .socialCertificate, .socialNoCertificate,
  ]
}
