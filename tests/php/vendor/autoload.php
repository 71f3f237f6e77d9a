<?php
// Where an order service of its own would have Composer's: the classes of Debian's package php-amqplib.
require_once 'PhpAmqpLib/autoload.php';
