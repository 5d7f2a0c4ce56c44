-- Run once by the PostgreSQL image on an empty volume, after it has made the pipestream database.
CREATE DATABASE airflow OWNER pipestream;
